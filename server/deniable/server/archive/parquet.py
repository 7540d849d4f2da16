"""A part as Parquet: one column, `report`, of fixed-width binary; readable by any program.

No statistics, no dictionary, and nothing about when it was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deniable.server.archive.shuffling import Reports
from deniable.shared.errors import InvalidEnvelope

COLUMN = "report"
GROUP = 2**18  # reports that are read at once


def write_part(path: Path, rows: Reports) -> None:
    import pyarrow as pa
    from pyarrow.parquet import write_table

    count, size = rows.shape
    column = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(size), count, [None, pa.py_buffer(rows.tobytes())]
    )
    table = pa.Table.from_arrays([column], names=[COLUMN])
    write_table(
        table, path, row_group_size=GROUP, compression="zstd", use_dictionary=False,
        write_statistics=False, store_schema=False,
    )  # fmt: skip


def payloads(content: bytes, size: int) -> Iterator[tuple[bytes, int]]:
    """The reports of a part, each some of them, joined; InvalidEnvelope where they are none."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        file = ParquetFile(pa.BufferReader(content))
        if file.schema_arrow != pa.schema([pa.field(COLUMN, pa.binary(size), nullable=True)]):
            raise InvalidEnvelope("bad-payload", f"it is no column of {size} bytes each")
        for batch in file.iter_batches(GROUP):
            yield _payload(batch.column(0), size), batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise InvalidEnvelope("bad-payload", f"it is not Parquet: {type(error).__name__}") from None


def _payload(column: Any, size: int) -> bytes:  # Any: pyarrow ships no types
    if column.null_count:
        raise InvalidEnvelope("bad-payload", "a report is missing")
    values = memoryview(column.buffers()[1])
    return bytes(values[column.offset * size : (column.offset + len(column)) * size])
