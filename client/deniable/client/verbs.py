"""The verbs that this part brings to the `deniable` command."""

from deniable.shared.verb import Verb

VERBS: tuple[Verb, ...] = ()
