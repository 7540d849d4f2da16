"""The verbs that the server brings to the `deniable` command."""

from deniable.server.verbs_backup import BACKUP, RESTORE
from deniable.server.verbs_keys import KEYS
from deniable.server.verbs_results import RESULTS
from deniable.server.verbs_serve import SERVE
from deniable.server.verbs_survey import SURVEY
from deniable.server.verbs_token import TOKEN
from deniable.shared.verb import Verb

VERBS: tuple[Verb, ...] = (SERVE, SURVEY, RESULTS, TOKEN, KEYS, BACKUP, RESTORE)
