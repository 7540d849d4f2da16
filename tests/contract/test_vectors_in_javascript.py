"""Vectors in the JavaScript client: placed like those of the Python client, and of unit length."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest

from deniable.shared.privacy.epsilon import ONE
from deniable.shared.survey.document import parse_toml, render_document
from tests.node import NODE
from tests.survey_texts import survey_text, vector

SOURCE = Path(__file__).resolve().parents[2] / "client" / "javascript" / "src" / "survey.js"
DIMENSION = 3
SURVEY = parse_toml(survey_text(vector(DIMENSION)))
# As JavaScript, and the same in Python.
VALUES: dict[str, object] = {
    "[0.5, 0, 0]": [0.5, 0, 0],
    "[3, -4, 12]": [3, -4, 12],
    "[0, 0, 0]": [0, 0, 0],
    "new Float64Array([0.1, 0.2, 0.3])": [0.1, 0.2, 0.3],
    "[1n, 0n, 0n]": [1, 0, 0],
    "[1e308, 1e308, -1e308]": [1e308, 1e308, -1e308],
    "[Infinity, 0, 0]": [math.inf, 0, 0],
    "[1e-300, 0, 0]": [1e-300, 0, 0],
    "[NaN, 0, 0]": [math.nan, 0, 0],
    "[1, 0]": [1, 0],
    "[1, 0, 0, 0]": [1, 0, 0, 0],
    '["1", 0, 0]': ["1", 0, 0],
    "[null, 0, 0]": [None, 0, 0],
    '"abc"': "abc",
    "null": None,
    "7": 7,
    "{ length: 3 }": {"length": 3},
}


def placed() -> list[Any]:  # Any: JSON
    """Return the direction and the length of each value, or None if it does not fit."""
    document = json.dumps(render_document(SURVEY).decode())
    script = f"""
        import {{ parseSurvey }} from {json.dumps(SOURCE.as_uri())};
        const {{ questions: [question] }} = parseSurvey({document});
        const places = [{", ".join(VALUES)}].map((value) => question.place(value));
        console.log(JSON.stringify(places.map((place) => place
            ? [place.direction, String(place.length)]
            : null)));
    """
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", script], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def test_vectors_are_placed_as_in_python() -> None:
    """Sums may be rounded differently, in the last bits of a double."""
    (asked,) = SURVEY.questions
    for (name, value), got in zip(VALUES.items(), placed(), strict=True):
        expected = asked.place(value)
        assert (got is None) == (expected is None), name
        if expected is not None:
            assert got[0] == pytest.approx(expected[0], abs=2), name
            assert int(got[1]) == pytest.approx(expected[1], abs=ONE / 2**48), name


def test_a_short_vector_is_often_reported_backwards() -> None:
    """The last coin turns every vector of length 0 around, and none of length 1."""
    document = json.dumps(render_document(SURVEY).decode())
    program = f"""
        import {{ parseSurvey }} from {json.dumps(SOURCE.as_uri())};
        const {{ questions: [question] }} = parseSurvey({document});
        const direction = [2 ** 32, 0, 0], last = new Uint8Array(24).fill(255, 8, 16);
        const reports = [2n ** 64n, 0n].map((length) => {{
            const draws = [new Uint8Array(8), last];
            const draw = () => new DataView(draws.shift().buffer);
            return question.report({{ direction, length }}, draw).payload;
        }});
        console.log(JSON.stringify(reports.map((payload) => Array.from(payload))));
    """
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", program], capture_output=True, text=True, timeout=60
    )
    ahead, backwards = json.loads(done.stdout)
    assert backwards == [*ahead[:8], ahead[8] ^ 1]
