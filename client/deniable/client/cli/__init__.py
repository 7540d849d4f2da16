"""The verbs that this part brings to the `deniable` command."""

from deniable.client.cli.answer import ANSWER
from deniable.client.cli.audit import AUDIT
from deniable.client.cli.doctor import DOCTOR
from deniable.client.cli.sent import SENT
from deniable.shared.cli.verb import Verb

VERBS: tuple[Verb, ...] = (ANSWER, AUDIT, DOCTOR, SENT)
