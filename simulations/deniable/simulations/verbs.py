"""Table of the verbs that this part adds to the `deniable` command."""

from deniable.shared.cli.verb import Verb
from deniable.simulations.demo.verb import DEMO
from deniable.simulations.engine.command import SIMULATE

VERBS: tuple[Verb, ...] = (DEMO, SIMULATE)
