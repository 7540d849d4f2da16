"""Archives: rounds as files, and recounts of them on one or more machines.

    ARCHIVE/<survey id>/survey.json                  the document, its signature and public key
    ARCHIVE/<survey id>/<round>/manifest.json        number of reports, digest of each part
    ARCHIVE/<survey id>/<round>/part-00000.parquet   the reports, in random order

`round_files` shuffles a round and writes it, `manifest` describes it, and `fold` recounts it.
Archived reports have no id and no time, and the reports of an envelope are scattered, so an archive
does not show which reports arrived together. It cannot recognize a report that is sent again.
"""

from deniable.server.archive.fold import Fold, fold_part, recount
from deniable.server.archive.manifest import Part, rounds_of
from deniable.server.archive.round_files import archive_round, write_round

__all__ = [
    "Fold", "Part", "archive_round", "fold_part", "recount", "rounds_of", "write_round",
]  # fmt: skip
