"""The client's verbs of the `deniable` command, one in each module."""

from deniable.client.cli.answer import ANSWER
from deniable.client.cli.audit import AUDIT
from deniable.client.cli.doctor import DOCTOR
from deniable.client.cli.sent import SENT
from deniable.shared.cli.verb import Verb

VERBS: tuple[Verb, ...] = (ANSWER, AUDIT, DOCTOR, SENT)
