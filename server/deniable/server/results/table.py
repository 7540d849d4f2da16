"""Results as a flat table: one row for each label of each question of each round."""

from __future__ import annotations

import csv
import io
from typing import Any

COLUMNS = (
    "survey", "name", "round", "from", "until", "open", "question", "kind", "label", "estimate",
    "low", "high", "standard_error", "consistent", "reports", "confidence", "epsilon", "mechanism",
    "leverage", "note",
)  # fmt: skip


def flat_rows(document: dict[str, Any]) -> list[dict[str, Any]]:  # Any: JSON
    """From the document of `survey_results`; what is unknown is empty."""
    return [
        {
            **{key: document[key] for key in ("survey", "name", "confidence")},
            **{key: period[key] for key in ("round", "from", "until", "open")},
            "question": question,
            **{
                key: document["about"][question][key]
                for key in ("kind", "epsilon", "mechanism", "leverage")
            },
            **row,
            "open": "yes" if period["open"] else "no",
            "note": "; ".join(note for note in (row["note"], period["note"]) if note),
        }
        for period in document["rounds"]
        for question, rows in period["questions"].items()
        for row in rows
    ]


def csv_text(document: dict[str, Any]) -> str:  # Any: JSON
    """RFC 4180, with a header."""
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, COLUMNS)
    writer.writeheader()
    writer.writerows(flat_rows(document))
    return file.getvalue()
