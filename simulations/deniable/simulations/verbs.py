"""The verbs that this part brings to the `deniable` command."""

from deniable.shared.verb import Verb
from deniable.simulations.command import add_arguments, simulate
from deniable.simulations.demo.verb import DEMO

VERBS: tuple[Verb, ...] = (
    DEMO,
    Verb("simulate", "what privacy costs, before anyone is asked", add_arguments, simulate),
)
