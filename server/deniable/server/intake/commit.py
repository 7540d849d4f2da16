"""What one group commit does: take the envelopes that are new, and count them, once each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from deniable.server.intake.tally import tally
from deniable.server.store import Cells, Store, Transaction, Upload, UploadKey
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.survey.document import Survey

Outcome = Literal["accepted", "duplicates", "late"]


def commit(transaction: Transaction, uploads: Sequence[Upload]) -> list[Outcome]:
    """What becomes of each upload, once the transaction is on disk.

    Of uploads with one key the first may count; the others are its duplicates.
    """
    firsts = {upload.key: upload for upload in reversed(uploads)}
    outcomes: dict[UploadKey, Outcome] = {}
    for members in _by_round(list(firsts.values())):
        outcomes |= _commit_round(transaction, members)
    return [
        outcomes[upload.key] if firsts[upload.key] is upload else _repeated(outcomes[upload.key])
        for upload in uploads
    ]


def recover(store: Store, catalogue: Catalogue, *, serves: bool = False) -> None:
    """Count what was acknowledged and has not come into the tables, if there is any; what is there
    after all is a duplicate. Where it was kept it stays, but for a server's: that overwrites it.
    What is of a survey that was deleted, or of one that is damaged, goes with it."""
    left = store.unsettled()
    uploads = [
        Upload(published, each.round, each.kept.id, each.kept.reports, each.kept.payload)
        for each in left
        if (published := catalogue.known(each.survey))
    ]
    if left:
        with store.transaction(later=serves) as transaction:
            commit(transaction, uploads)


def _commit_round(transaction: Transaction, uploads: list[Upload]) -> dict[UploadKey, Outcome]:
    """Of one survey and round."""
    published, number = uploads[0].survey, uploads[0].round
    if transaction.is_sealed(published.sequence, number):
        return {upload.key: "late" for upload in uploads}
    new = transaction.insert(uploads)
    taken = [upload for upload in uploads if upload.key in new]
    if taken:
        reports = sum(upload.count for upload in taken)
        transaction.add(published.sequence, number, reports, _cells(published.survey, taken))
    return {upload.key: "accepted" if upload.key in new else "duplicates" for upload in uploads}


def _cells(survey: Survey, uploads: Sequence[Upload]) -> Cells:
    """Their counts: those that admission counted, and the others' payloads counted as one."""
    parts = [upload.cells for upload in uploads if upload.cells is not None]
    others = [upload for upload in uploads if upload.cells is None]
    if others:
        payload = b"".join(upload.payload for upload in others)
        parts.append(tally(survey, payload, sum(upload.count for upload in others)))
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def _by_round(uploads: Sequence[Upload]) -> list[list[Upload]]:
    rounds: dict[tuple[int, int], list[Upload]] = {}
    for upload in uploads:
        rounds.setdefault((upload.survey.sequence, upload.round), []).append(upload)
    return [rounds[place] for place in sorted(rounds)]  # not as they came


def _repeated(first: Outcome) -> Outcome:
    return "duplicates" if first == "accepted" else first
