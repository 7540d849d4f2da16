"""Cost of a table in a survey: making it, sending it, and verifying it on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from deniable.server.surveys.optimal_table import optimal_table
from deniable.server.surveys.survey_file import parse_survey_file
from deniable.shared.survey.document import parse_document, render_document
from tests.bench.measure import ROUNDS, Measurement, seconds
from tests.survey_texts import number, survey_text

EPSILONS = ("1", "4", "6", "8")  # two use the coarse grid, and two the fine grid
MAX_MS, MAX_PROOF_MS, MAX_KIB = 3_000, 10, 64


def measurements() -> Iterator[Measurement]:
    for epsilon in EPSILONS:
        text = survey_text(number(mechanism="optimal-table", epsilon=epsilon))

        def make(text: str = text) -> None:
            optimal_table.cache_clear()
            parse_survey_file(text)

        document = render_document(parse_survey_file(text))

        def prove(document: bytes = document) -> None:
            parse_document(document)

        at = f"at ε {epsilon}"
        yield alone(f"making a survey's table {at}", make, MAX_MS)
        yield alone(f"reading and proving it {at}", prove, MAX_PROOF_MS)
        yield Measurement(f"the document {at}", len(document) / 1024, None, "KiB", MAX_KIB)


def alone(name: str, ours: Callable[[], object], limit: float) -> Measurement:
    times = [1e3 * seconds(ours) for _ in range(ROUNDS)]
    spread = max(times) / min(times) - 1
    return Measurement(name, min(times), None, "ms", limit, spread)
