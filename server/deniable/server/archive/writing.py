"""Writing a round to an archive: all of it, or nothing; and only what the server has counted."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import numpy as np

from deniable.server.archive.layout import (
    MANIFEST,
    SURVEY,
    UNFINISHED,
    Manifest,
    PartFile,
    digest_of,
    round_folder,
    write_durably,
    write_survey,
)
from deniable.server.archive.parquet import write_part
from deniable.server.archive.shuffling import Reports, shuffled
from deniable.server.disk import PRIVATE_FILE, PRIVATE_FOLDER, sync
from deniable.server.intake.tally import empty_cells, tally
from deniable.server.store import Kept, PublishedSurvey, RoundTally, Store
from deniable.shared.errors import Refused

PART_REPORTS, PART_BYTES = 2**21, 2**26  # at most so much is in memory at once, a few times
CHUNK_BYTES = 2**24


def archive_round(
    store: Store, published: PublishedSurvey, kept: RoundTally, archive: Path
) -> Manifest:
    """A round that takes no more reports. Refused, where its envelopes are not what was counted."""

    def check(counted: RoundTally) -> None:
        if digest_of(counted) != digest_of(kept):
            raise Refused(
                f"round {kept.round} of {published.name} is not archived: its envelopes hold "
                f"{counted.reports:,} reports and its tally counts {kept.reports:,}, or they "
                "differ otherwise; see deniable doctor --data DIR"
            )

    chunks = joined(published, store.envelopes(published.sequence, kept.round))
    return write_round(published, kept.round, kept.reports, chunks, archive, check)


def write_round(
    published: PublishedSurvey,
    number: int,
    reports: int,
    chunks: Iterable[Reports],
    archive: Path,
    check: Callable[[RoundTally], None] = lambda _counted: None,
) -> Manifest:
    """About so many reports, from anywhere. Refused, if the round is there already."""
    target = round_folder(archive, published, number)
    if target.exists():
        raise Refused(f"{target} is there already, and an archive is never overwritten")
    unfinished = target.with_name(target.name + UNFINISHED)
    shutil.rmtree(unfinished, ignore_errors=True)  # of an earlier try that was killed
    unfinished.mkdir(parents=True, mode=PRIVATE_FOLDER)
    try:
        manifest = _filled(published, number, reports, chunks, unfinished, check)
        write_durably(unfinished / MANIFEST, msgspec.json.encode(manifest))
        if not (target.parent / SURVEY).exists():
            write_survey(target.parent, published)
        unfinished.replace(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    sync(target.parent)
    return manifest


def joined(published: PublishedSurvey, envelopes: Iterable[Kept]) -> Iterator[Reports]:
    """Reports without their envelopes, many at a time."""
    parts, size = list[bytes](), 0
    for each in envelopes:
        parts.append(each.payload)
        size += len(each.payload)
        if size >= CHUNK_BYTES:
            yield _rows(published, parts)
            parts, size = [], 0
    if parts:
        yield _rows(published, parts)


def _filled(
    published: PublishedSurvey,
    number: int,
    reports: int,
    chunks: Iterable[Reports],
    folder: Path,
    check: Callable[[RoundTally], None],
) -> Manifest:
    """Every part is counted as it is written."""
    size = published.survey.report_size
    in_each = max(1, min(PART_REPORTS, PART_BYTES // size))
    parts = max(1, -(-reports // in_each))
    cells, files = empty_cells(published.survey), list[PartFile]()
    for rows in shuffled(chunks, size, parts, folder):
        if len(rows):
            cells += tally(published.survey, rows.tobytes(), len(rows))
            files.append(_part(folder / f"part-{len(files):05}.parquet", rows))
    counted = RoundTally(number, sum(each.reports for each in files), cells)
    check(counted)
    return Manifest(
        survey=published.id,
        round=number,
        report_size=size,
        reports=counted.reports,
        tally=digest_of(counted),
        parts=tuple(files),
    )


def _part(path: Path, rows: Reports) -> PartFile:
    write_part(path, rows)
    path.chmod(PRIVATE_FILE)
    with path.open("rb") as file:
        os.fsync(file.fileno())
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return PartFile(file=path.name, reports=len(rows), bytes=path.stat().st_size, sha256=digest)


def _rows(published: PublishedSurvey, payloads: Iterable[bytes]) -> Reports:
    content = np.frombuffer(b"".join(payloads), np.uint8)
    return content.reshape(-1, published.survey.report_size)
