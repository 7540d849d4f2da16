"""Files of an archived round: its reports in random order, written completely or not at all.

Each report is first written to a random part on disk, and then each part is permuted in memory, so
that all orders are equally probable (Rao 1961; Sandelius 1962), up to a bias of 2^-50. Random
numbers come from the kernel. A part is a Parquet file with a single fixed-width binary column,
`report`, and without statistics, a dictionary or a time of writing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from deniable.server.archive.manifest import (
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
from deniable.server.disk import PRIVATE_FILE, PRIVATE_FOLDER, sync
from deniable.server.intake.tally import empty_cells, joined, round_tally
from deniable.server.store import Crowd, PublishedSurvey, RoundTally, Store
from deniable.shared.errors import InvalidEnvelope, Refused, quantity

Reports = npt.NDArray[np.uint8]  # one row of bytes for each report

MAX_PART_REPORTS, MAX_PART_BYTES = 2**21, 2**26  # small enough that several parts fit in memory
CHUNK_BYTES = 2**24
COLUMN = "report"
MAX_GROUP_REPORTS = 2**18  # reports per read


# Rounds


def archive_round(
    store: Store, published: PublishedSurvey, kept: RoundTally, archive: Path
) -> Manifest:
    """Archive a finished round. Raise Refused if its envelopes differ from its tally."""

    def check(counted: RoundTally) -> None:
        if digest_of(counted) != digest_of(kept):
            raise Refused(
                f"round {kept.round} of {published.name} is not archived: its envelopes "
                f"({quantity(counted.reports, 'report')}) and its tally ({kept.reports:,}) differ; "
                "run deniable doctor --data DIR"
            )

    envelopes, size = store.envelopes(published.sequence, kept.round), published.survey.report_size
    chunks = (
        np.frombuffer(payload, np.uint8).reshape(-1, size)
        for payload, _ in joined(envelopes, CHUNK_BYTES)
    )
    crowd = store.crowds(published.sequence).get(kept.round, Crowd())
    return write_round(published, kept.round, kept.reports, chunks, archive, check, crowd)


def write_round(
    published: PublishedSurvey,
    number: int,
    reports: int,
    chunks: Iterable[Reports],
    archive: Path,
    check: Callable[[RoundTally], None] = lambda _counted: None,
    crowd: Crowd = Crowd(),  # noqa: B008 # immutable
) -> Manifest:
    """Write a round of about `reports` reports. Raise Refused if the archive contains it."""
    target = round_folder(archive, published, number)
    if target.exists():
        raise Refused(
            f"{target} already exists, and an archive is never overwritten; name another archive"
        )
    unfinished = target.with_name(target.name + UNFINISHED)
    shutil.rmtree(unfinished, ignore_errors=True)  # an interrupted attempt may have left it
    unfinished.mkdir(parents=True, mode=PRIVATE_FOLDER)
    try:
        manifest = _write_parts(published, number, reports, chunks, unfinished, check)
        manifest = msgspec.structs.replace(manifest, crowd=crowd)
        write_durably(unfinished / MANIFEST, msgspec.json.encode(manifest))
        if not (target.parent / SURVEY).exists():
            write_survey(target.parent, published)
        unfinished.replace(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    sync(target.parent)
    return manifest


def _write_parts(
    published: PublishedSurvey,
    number: int,
    reports: int,
    chunks: Iterable[Reports],
    folder: Path,
    check: Callable[[RoundTally], None],
) -> Manifest:
    size = published.survey.report_size
    part_reports = max(1, min(MAX_PART_REPORTS, MAX_PART_BYTES // size))
    parts = max(1, -(-reports // part_reports))
    survey, files = published.survey, list[PartFile]()
    counted = RoundTally(number, 0, empty_cells(survey))
    for rows in shuffled(chunks, size, parts, folder):
        if len(rows):
            part = [(rows.tobytes(), len(rows))]
            counted += round_tally(survey, number, part, published.label_key)
            files.append(_part(folder / f"part-{len(files):05}.parquet", rows))
    check(counted)
    return Manifest(
        survey=published.id,
        round=number,
        report_size=size,
        reports=counted.reports,
        tally=digest_of(counted),
        label_key=published.label_key.hex(),
        closed=published.closed,
        parts=tuple(files),
    )


def _part(path: Path, rows: Reports) -> PartFile:
    write_part(path, rows)
    path.chmod(PRIVATE_FILE)
    with path.open("rb") as file:
        os.fsync(file.fileno())
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return PartFile(file=path.name, reports=len(rows), bytes=path.stat().st_size, sha256=digest)


# Shuffle


def shuffled(chunks: Iterable[Reports], size: int, parts: int, folder: Path) -> Iterator[Reports]:
    """Yield the reports in random order, part by part, using temporary files in `folder`."""
    for rows in chunks:
        _scatter(rows, parts, folder)
    for number in range(parts):
        spilled = _spilled(folder, number)
        content = spilled.read_bytes() if spilled.exists() else b""
        spilled.unlink(missing_ok=True)
        rows = np.frombuffer(content, np.uint8).reshape(-1, size)
        yield permuted(rows)


def permuted(rows: Reports) -> Reports:
    return rows[np.argsort(_random(len(rows)))]


def _scatter(rows: Reports, parts: int, folder: Path) -> None:
    target = (_random(len(rows)) % np.uint64(parts)).astype(np.uint32)
    order = np.argsort(target, kind="stable")
    ends = np.searchsorted(target[order], np.arange(parts), side="right")
    for number, part in enumerate(np.split(rows[order], ends[:-1])):
        if len(part):
            with _spilled(folder, number).open("ab") as file:
                file.write(part.tobytes())


def _random(count: int) -> npt.NDArray[np.uint64]:
    return np.frombuffer(os.urandom(8 * count), np.uint64)


def _spilled(folder: Path, number: int) -> Path:
    return folder / f"{number}.spilled"


# Parquet


def write_part(path: Path, rows: Reports) -> None:
    import pyarrow as pa
    from pyarrow.parquet import write_table

    count, size = rows.shape
    column = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(size), count, [None, pa.py_buffer(rows.tobytes())]
    )
    table = pa.Table.from_arrays([column], names=[COLUMN])
    write_table(
        table, path, row_group_size=MAX_GROUP_REPORTS, compression="zstd", use_dictionary=False,
        write_statistics=False, store_schema=False,
    )  # fmt: skip


def payloads(content: bytes, size: int) -> Iterator[tuple[bytes, int]]:
    """Yield (joined reports, number) for groups of a part. Raise InvalidEnvelope for faults."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        file = ParquetFile(pa.BufferReader(content))
        if file.schema_arrow != pa.schema([pa.field(COLUMN, pa.binary(size), nullable=True)]):
            raise InvalidEnvelope(
                "bad-payload", f"the file needs a single column of {size}-byte values"
            )
        for batch in file.iter_batches(MAX_GROUP_REPORTS):
            yield _payload(batch.column(0), size), batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise InvalidEnvelope("bad-payload", f"not Parquet: {type(error).__name__}") from None


def _payload(column: Any, size: int) -> bytes:  # Any: pyarrow ships no types
    if column.null_count:
        raise InvalidEnvelope("bad-payload", "a report is missing")
    values = memoryview(column.buffers()[1])
    return bytes(values[column.offset * size : (column.offset + len(column)) * size])
