"""The verbs that this part brings to the `deniable` command."""

from deniable.shared.cli.verb import Verb
from deniable.simulations.demo.verb import DEMO
from deniable.simulations.frame.command import add_arguments, simulate

VERBS: tuple[Verb, ...] = (
    DEMO,
    Verb(
        "simulate",
        "what privacy costs, before anyone is asked",
        add_arguments,
        simulate,
        example="deniable simulate bit --out bit",
    ),
)
