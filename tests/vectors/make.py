"""Add vectors for new mechanisms, and missing files: python -m tests.vectors.make.

Existing vectors stay unchanged, because they are a promise to other implementations. Review the
additions, and check some of them by hand, before you keep them.
"""

import json
import random
from datetime import date
from pathlib import Path
from typing import Any

from deniable.server.surveys.optimal_table import optimal_table
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.mechanism import SUMS, Mechanism
from deniable.shared.privacy.mechanisms import OptimalTable, mechanisms
from deniable.shared.privacy.mechanisms.optimal_table import EXAMPLES
from deniable.shared.privacy.verification import EPSILONS
from deniable.shared.survey.document import PERIODS, parse_toml
from tests.given_table import BROKEN, honest, planted
from tests.survey_texts import YEARS, bit, survey_text
from tests.survey_texts import question as in_toml
from tests.vectors import ask_one, labels, languages, latched, over, participation, sealed

FOLDER = Path(__file__).parent
DRAWS, ENCODINGS = FOLDER / "mechanisms.json", FOLDER / "encodings.json"
TABLES, TEXTS = FOLDER / "tables.json", FOLDER / "texts.json"
ROUNDS = FOLDER / "rounds.json"
DAYS = (
    "2024-01-01",
    "2024-02-29",
    "2024-12-29",
    "2024-12-30",
    "2025-01-01",
    "2027-06-30",
    "2027-07-01",
)
EPSILON, SIZE, EACH = "1", 11, 3
LARGER = {"square-wave": 100}  # a size at which its window has a remainder
RANDOM = random.Random(20261118)  # any seed works, because the bytes are stored


def main() -> None:
    add_examples(Path(EXAMPLES))
    add(DRAWS, lambda mechanism: [drawn(mechanism) for _ in range(EACH)])
    add_edges(DRAWS)
    add_tables(TABLES)
    add(ENCODINGS, lambda mechanism: [encoded(mechanism)])
    add_texts(TEXTS)
    add_rounds(ROUNDS)
    ask_one.make(FOLDER)
    labels.make(FOLDER)
    languages.make(FOLDER)
    latched.make(FOLDER)
    over.make(FOLDER)
    participation.make(FOLDER)
    sealed.make(FOLDER)


def add_examples(path: Path) -> None:
    """Add examples of tables without a formula, at each ε at which `certify` proves them."""
    examples = json.loads(path.read_text()) if path.exists() else {}
    for epsilon in EPSILONS:
        for steps in OptimalTable.proved_sizes:
            made = optimal_table(Epsilon(epsilon), steps)
            texts = [str(integer) for integer in made.integers]
            examples.setdefault(epsilon, {}).setdefault(str(steps), texts)
    path.write_text(json.dumps(examples, indent=1) + "\n")


def add_tables(path: Path) -> None:
    """Add questions that contain their table: a valid one, and broken ones with the reason."""
    if not path.exists():
        bad = {name: planted(change) for name, (change, _) in BROKEN.items()}
        vectors = {
            "good": question_in(honest()),
            "bad": [
                {"name": name, "question": question_in(integers)} for name, integers in bad.items()
            ],
        }
        path.write_text(json.dumps(vectors, indent=1) + "\n")


def add_texts(path: Path) -> None:
    """Add texts with their buckets in every group; invalid texts have none."""
    if not path.exists():
        vectors: list[dict[str, Any]] = [
            {"salt": salt, "length": length, "buckets": buckets, "text": text}
            for salt, length, buckets in (("town", 4, 1_024), ("stra\u00dfe", 9, 65_536))
            for text in (
                "a",
                "oslo",
                "reykjav\u00edk",
                "\u6771\u4eac\u90fd",
                "\U0001f600" * 3,
                " x ",
                "\u6771\u4eac\n\u4eac\u90fd\n",
                "oslo \u6771\u4eac\ud800",
            )
        ]
        bad = ("", "  ", "a\nb", "a\0", "\u202ea", "\u6771\n", "osl\ud800", "os\n\u6771")
        none = [{**vectors[0], "text": text} for text in bad]
        path.write_text(
            json.dumps([vector | placed(**vector) for vector in [*vectors, *none]], indent=1) + "\n"
        )


def add_rounds(path: Path) -> None:
    """Add the round of each day for the periods of the table that have no vectors yet."""
    vectors = json.loads(path.read_text()) if path.exists() else []
    known = {vector["period"] for vector in vectors}
    for period in PERIODS.keys() - known:
        survey = parse_toml(survey_text(bit(), round=period, **YEARS))
        for day in map(date.fromisoformat, DAYS):
            number = survey.round_of(day)
            until = int(survey.taken_until(number).timestamp())
            vectors.append(
                {"period": period, "day": str(day), "round": number, "accepted_until": until}
            )
    path.write_text(json.dumps(vectors, indent=1) + "\n")


def placed(salt: str, length: int, buckets: int, text: str) -> dict[str, Any]:
    """Return a text as `Text.place` places it."""
    asked = in_toml("it", "text", length=length, buckets=buckets, salt=salt)
    (question,) = parse_toml(survey_text(asked)).questions
    return {"placed": question.place(text)}


def question_in(document: bytes) -> Any:
    return json.loads(document)["question"][0]


def add(path: Path, make: Any) -> None:  # Any: returns JSON
    vectors = json.loads(path.read_text()) if path.exists() else []
    there = {vector["mechanism"] for vector in vectors}
    for name, mechanism in mechanisms().items():
        if name not in there:
            sizes = mechanism.proved_sizes if mechanism.given else mechanism.sizes
            size = LARGER.get(name, SIZE if SIZE in sizes else sizes[0])
            vectors += make(mechanism(Epsilon(EPSILON), size))
    path.write_text(json.dumps(vectors, indent=1) + "\n")


def add_edges(path: Path) -> None:
    """Add the rolls at both ends of a number's likeliest symbol, which reveal a shifted unit."""
    vectors = json.loads(path.read_text())
    for name, mechanism in mechanisms().items():
        size = LARGER.get(name, SIZE)
        if issubclass(mechanism, NumberTable) and not mechanism.given and size in mechanism.sizes:
            made = mechanism(Epsilon(EPSILON), size)
            row = made.rows[made.answers // 2]
            likeliest = row.index(max(row))
            begin, end = sum(row[:likeliest]), sum(row[: likeliest + 1])
            edges = [drawn(made, roll) for roll in (begin - 1, begin, end - 1, end)]
            vectors += [edge for edge in edges if edge not in vectors]
    path.write_text(json.dumps(vectors, indent=1) + "\n")


def head(mechanism: Mechanism) -> dict[str, Any]:
    return {
        "mechanism": mechanism.name,
        "epsilon": str(mechanism.epsilon),
        "size": mechanism.size,
    }


def drawn(mechanism: Mechanism, roll: int | None = None) -> dict[str, Any]:
    """Return one report: the answer, the random bytes, and the resulting symbol.

    The bytes are random, or all encode this number.
    """
    answer = mechanism.answers // 2
    given = mechanism.answer_at(answer)
    used: list[bytes] = []

    def draw(bits: int) -> int:
        count = bits // 8
        used.append(RANDOM.randbytes(count) if roll is None else roll.to_bytes(count, "little"))
        return int.from_bytes(used[-1], "little")

    symbol = mechanism.randomize(given, draw)
    return {
        **head(mechanism),
        "answer": f"{answer}/{mechanism.size}" if mechanism.kind == "number" else answer,
        "draw": b"".join(used).hex(),
        "symbol": symbol,
        "payload": payload(mechanism, symbol),
    }


def encoded(mechanism: Mechanism) -> dict[str, Any]:
    """Return the integers, some symbols in both encodings with cells, and invalid payloads."""
    encoding, size = mechanism.encoding, mechanism.payload_size
    public = RANDOM.getrandbits(encoding.public_bits)
    symbols = [symbol | public for symbol in encoding.symbols()]
    shown = [symbols[0], symbols[len(symbols) // 2], symbols[-1]]
    wrong = [n for n in range(min(encoding.limit, 4096)) if not encoding.is_symbol(n)][:2]
    wrong += [encoding.limit] if encoding.limit < 256**size else []
    return {
        **head(mechanism),
        "integers": [str(integer) for integer in mechanism.integers],
        "symbols": [
            {
                "json": encoding.to_json(symbol),
                "payload": payload(mechanism, symbol),
                **counted(mechanism, symbol),
            }
            for symbol in dict.fromkeys(shown)
        ],
        "bad_payloads": [number.to_bytes(size, "little").hex() for number in wrong],
    }


def counted(mechanism: Mechanism, symbol: int) -> dict[str, list[int]]:
    """Return the cells that it counts in, or the amounts if it adds to all of them."""
    if mechanism.joint == SUMS:
        return {"adds": [amount for _, amount in mechanism.encoding.amounts(symbol)]}
    return {"cells": list(mechanism.cells_of(symbol))}


def payload(mechanism: Mechanism, symbol: int) -> str:
    return symbol.to_bytes(mechanism.payload_size, "little").hex()


if __name__ == "__main__":
    main()
