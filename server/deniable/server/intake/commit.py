"""What one group commit does: take the envelopes that are new, and count them, once each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from deniable.server.intake.tally import tally
from deniable.server.store import Recording, Upload

Verdict = Literal["accepted", "duplicate", "late"]
Key = tuple[int, int, bytes]


def record(recording: Recording, uploads: Sequence[Upload]) -> list[Verdict]:
    """What becomes of each upload, once the transaction is committed.

    Of uploads with one key the first may count; the others are its duplicates.
    """
    firsts = {upload.key: upload for upload in reversed(uploads)}
    verdicts: dict[Key, Verdict] = {}
    for (_, number), members in _by_round(list(firsts.values())).items():
        verdicts |= _record_round(recording, number, members)
    return [
        _repeated(verdicts[upload.key])
        if firsts[upload.key] is not upload
        else verdicts[upload.key]
        for upload in uploads
    ]


def _record_round(recording: Recording, number: int, uploads: list[Upload]) -> dict[Key, Verdict]:
    published = uploads[0].survey
    if recording.is_sealed(published, number):
        return {upload.key: "late" for upload in uploads}
    new = recording.insert(uploads)
    taken = [upload for upload in uploads if upload.key in new]
    if taken:
        reports = sum(upload.count for upload in taken)
        payload = b"".join(upload.payload for upload in taken)
        recording.add(published, number, reports, tally(published.survey, payload, reports))
    return {upload.key: "accepted" if upload.key in new else "duplicate" for upload in uploads}


def _by_round(uploads: Sequence[Upload]) -> dict[tuple[int, int], list[Upload]]:
    rounds: dict[tuple[int, int], list[Upload]] = {}
    for upload in uploads:
        rounds.setdefault((upload.survey.sequence, upload.round), []).append(upload)
    return rounds


def _repeated(first: Verdict) -> Verdict:
    return "duplicate" if first == "accepted" else first
