"""Group commit: stores new envelopes, and counts each of them once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

from deniable.server.intake.tally import label_counts, tally
from deniable.server.store import (
    Cells,
    Place,
    PublishedSurvey,
    RoundTally,
    Store,
    Transaction,
    Upload,
    UploadKey,
    open_store,
)
from deniable.server.store.label_counts import label_hashes
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.survey.document import Survey

Outcome = Literal["accepted", "duplicates", "late", "invitation-unknown", "invitation-spent"]


def commit(transaction: Transaction, uploads: Sequence[Upload]) -> list[Outcome]:
    """Store and count uploads. Return the outcome of each, valid once the transaction is on disk.

    If several uploads have the same key, only the first may count; the rest are duplicates.
    """
    firsts = {upload.key: upload for upload in reversed(uploads)}
    rounds: dict[tuple[int, int], list[Upload]] = {}
    for upload in firsts.values():
        rounds.setdefault(upload.key[:2], []).append(upload)
    outcomes: dict[UploadKey, Outcome] = {}
    # Sorted, so that the order of arrival does not show. Surveys by invitation come first, because
    # they share a lock: nodes that take locks in the same order never deadlock.
    invited = {of for of, them in rounds.items() if them[0].survey.survey.by_invitation}
    for number in sorted(rounds, key=lambda of: (of not in invited, of)):
        outcomes |= _commit_round(transaction, rounds[number])
    return [
        "duplicates"
        if upload is not firsts[upload.key] and outcomes[upload.key] == "accepted"
        else outcomes[upload.key]
        for upload in uploads
    ]


def recover(store: Store, catalogue: Catalogue, *, serves: bool = False) -> None:
    """Count the acknowledged envelopes that have not reached the tables.

    Envelopes that have reached the tables are duplicates. Afterwards, a server (`serves`)
    overwrites the redo file; other processes leave the file unchanged. Envelopes of a deleted or
    damaged survey are dropped.
    """
    if unsettled := store.unsettled():
        surveys = {published.id: published for published in catalogue.surveys()}
        uploads = [
            Upload(surveys[row.survey], row.round, row.kept.id, row.kept.reports, row.kept.payload)
            for row in unsettled
            if row.survey in surveys
        ]
        with store.transaction(later=serves) as transaction:
            commit(transaction, uploads)


@contextmanager
def open_recovered(place: Place) -> Iterator[Store]:
    """Open a store, and count all envelopes that a killed or running server has acknowledged."""
    with open_store(place) as store:
        if store.unsettled():
            recover(store, Catalogue(store))
        yield store


def _commit_round(transaction: Transaction, uploads: list[Upload]) -> dict[UploadKey, Outcome]:
    published, number = uploads[0].survey, uploads[0].round
    if transaction.is_sealed(published.sequence, number):
        return {upload.key: "late" for upload in uploads}
    refused = _refused(transaction, uploads) if published.survey.by_invitation else {}
    uploads = [upload for upload in uploads if upload.key not in refused]
    new = transaction.insert(uploads)
    accepted = [upload for upload in uploads if upload.key in new]
    if accepted:
        survey, reports = published.survey, sum(upload.count for upload in accepted)
        payload = b"".join(upload.payload for upload in accepted if survey.labels)
        labels = label_counts(survey, payload, reports, published.label_key)
        counts = RoundTally(number, reports, _cells(survey, accepted), labels)
        transaction.add(published.sequence, counts)
        if crowds := _crowds(published, accepted):
            transaction.count_batches(published.sequence, number, crowds)
    return refused | {
        upload.key: "accepted" if upload.key in new else "duplicates" for upload in uploads
    }


def _refused(transaction: Transaction, uploads: Sequence[Upload]) -> dict[UploadKey, Outcome]:
    """Spend the invitations of a round's new reports; return the outcomes of those refused.

    A report that is sent again was counted with its invitation, and needs none. If several reports
    have the same invitation, the one with the smallest id counts, not the first to arrive.
    """
    stored = transaction.stored(uploads)
    new = sorted((u for u in uploads if u.key not in stored), key=lambda upload: upload.key)
    holders = {upload.invitation: upload.key for upload in reversed(new)}
    unspent = transaction.spend(uploads[0].survey.sequence, [*holders])
    return {
        upload.key: "invitation-spent" if upload.invitation in unspent else "invitation-unknown"
        for upload in new
        if not (unspent.get(upload.invitation) and holders[upload.invitation] == upload.key)
    }


def _crowds(
    published: PublishedSurvey, uploads: Sequence[Upload]
) -> Mapping[tuple[bytes, bytes], int]:
    """Return the number of reports by batch and labels, which divide the crowd of a batch."""
    labels, key = published.survey.labels, published.label_key
    return Counter(
        (upload.batch, label_hashes(labels, upload.payload, key, upload.round))
        for upload in uploads
        if upload.batch
    )


def _cells(survey: Survey, uploads: Sequence[Upload]) -> Cells:
    """Return the sum of the uploads' counts. Join the payloads that admission has not counted."""
    parts = [upload.cells for upload in uploads if upload.cells is not None]
    others = [upload for upload in uploads if upload.cells is None]
    if others:
        payload = b"".join(upload.payload for upload in others)
        parts.append(tally(survey, payload, sum(upload.count for upload in others)))
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total
