"""A survey that is read, held against its id and its signature: a disk may have turned bits."""

from __future__ import annotations

from deniable.server.store.protocol import Damaged
from deniable.server.store.records import SurveyRow
from deniable.shared.errors import UntrustedSurvey
from deniable.shared.survey.document import survey_id
from deniable.shared.survey.keys import verify


def check_signed(row: SurveyRow) -> None:
    """Damaged, if it is not what was published."""
    says = f"survey {row.id[:12]} is not what was signed"
    if type(row.document) is not bytes or survey_id(row.document) != row.id:
        raise Damaged(f"{says}: its id is not the hash of its document")
    try:
        verify(row.document, row.signature, row.key, [row.key])
    except UntrustedSurvey as error:
        raise Damaged(f"{says}: {error}") from None
