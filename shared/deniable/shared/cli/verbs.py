"""The verbs that belong to no part alone."""

from deniable.shared.cli.certify import CERTIFY
from deniable.shared.cli.completion import COMPLETION
from deniable.shared.cli.odds import ODDS
from deniable.shared.cli.verb import Verb

VERBS: tuple[Verb, ...] = (CERTIFY, COMPLETION, ODDS)
