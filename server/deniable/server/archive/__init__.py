"""Rounds kept as files, and counted again from them, on one machine or on many.

    ARCHIVE/<survey id>/survey.json                  the document, its signature and its key
    ARCHIVE/<survey id>/<round>/manifest.json        how many reports, the digest of each part
    ARCHIVE/<survey id>/<round>/part-00000.parquet   reports, as they came, in random order

A report has no id and no time here, and reports that shared an envelope lie apart: nothing is left
of who sent what with what. So an archive cannot notice a report that is sent again.
"""

from deniable.server.archive.folding import Fold, fold_part, recount
from deniable.server.archive.layout import Manifest, Part, PartFile, rounds_of
from deniable.server.archive.writing import archive_round, write_round

__all__ = [
    "Fold",
    "Manifest",
    "Part",
    "PartFile",
    "archive_round",
    "fold_part",
    "recount",
    "rounds_of",
    "write_round",
]
