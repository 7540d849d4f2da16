"""Publishing a survey: its document read strictly, its signature by a key that is enrolled here."""

from __future__ import annotations

from deniable.server.store import PublishedSurvey, Store
from deniable.shared.errors import UntrustedSurvey
from deniable.shared.survey.document import parse_document
from deniable.shared.survey.signing import verify


def publish(store: Store, document: bytes, signature: str, key: str) -> PublishedSurvey:
    """The survey as it is published now. The same document again changes nothing."""
    parse_document(document)
    enrolled = store.enrolled_keys()
    if key not in enrolled:
        raise UntrustedSurvey(
            f"the key {key[:16]}… is not enrolled here; publish once with it in the data folder: "
            "deniable survey publish FILE --key KEY --data DIR"
        )
    verify(document, signature, key, enrolled)
    published = store.find(store.publish(document, signature, key))
    if published.key != key:
        raise UntrustedSurvey(
            f"these very bytes are published already, signed by the key {published.key[:16]}…; "
            "change anything in the survey to publish it under another key"
        )
    return published
