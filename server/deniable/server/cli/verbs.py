"""Verbs of the `deniable` command that the server provides."""

from deniable.server.cli.archive import ARCHIVE, BACKUP, RECOUNT, RESTORE
from deniable.server.cli.ask import ASK, INVITE
from deniable.server.cli.credentials import AUDIT, KEYS, TOKEN
from deniable.server.cli.doctor import DOCTOR
from deniable.server.cli.page_check import PAGE_CHECK
from deniable.server.cli.plan import PLAN, SHUFFLED
from deniable.server.cli.reconcile import RECONCILE
from deniable.server.cli.register import REGISTER
from deniable.server.cli.results_verb import RESULTS, SHARE
from deniable.server.cli.serve import RELAY, SERVE
from deniable.server.cli.survey import SURVEY
from deniable.shared.cli.verb import Verb

VERBS: tuple[Verb, ...] = (
    ASK, INVITE, SERVE, PLAN, SURVEY, RESULTS, SHARE, REGISTER, ARCHIVE, RECOUNT, TOKEN, KEYS,
    AUDIT, RELAY, BACKUP, RESTORE, RECONCILE, DOCTOR, PAGE_CHECK, SHUFFLED,
)  # fmt: skip
