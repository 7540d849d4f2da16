"""Vectors in the JavaScript client: it does not answer them, and states the reason."""

import json
import subprocess
from pathlib import Path

from deniable.shared.survey.document import parse_toml, render_document
from tests.node import NODE
from tests.survey_texts import survey_text, vector

SOURCE = Path(__file__).resolve().parents[2] / "client" / "javascript" / "src" / "survey.js"


def test_a_survey_that_asks_for_a_vector_is_refused_with_a_reason() -> None:
    document = render_document(parse_toml(survey_text(vector(10)))).decode()
    script = (
        f"import {{ parseSurvey }} from {json.dumps(SOURCE.as_uri())};\n"
        f"try {{ parseSurvey({json.dumps(document)}); }}\n"
        "catch (error) { console.log(error.message); }"
    )
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", script], capture_output=True, text=True, timeout=60
    )
    assert "asks for a vector, which only the Python client can answer" in done.stdout, done.stderr
