"""The table of this part's verbs."""

from deniable.shared.cli.certify import CERTIFY
from deniable.shared.cli.completion import COMPLETION
from deniable.shared.cli.odds import ODDS
from deniable.shared.cli.verb import Verb

VERBS: tuple[Verb, ...] = (CERTIFY, COMPLETION, ODDS)
