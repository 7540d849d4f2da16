"""JavaScript client in a real browser, on a page of another origin, with the real server."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from deniable.simulations.demo.server_process import running_server
from tests.command import asked_json
from tests.end_to_end.browser import CHROMIUM, NAMES, ROOT, Origin, origin
from tests.server.released import all_results
from tests.survey_texts import ALWAYS, bit, choice, number, survey_text

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason=f"no browser on PATH; install one of {', '.join(NAMES)}"
)
TOML = survey_text(
    bit(epsilon="20")
    + number(0, 100, "one-bit-mean", epsilon="20")
    + choice(["firefox", "chrome", "safari"], None, epsilon="20"),
    name="one-answer",
    **ALWAYS,
)


@pytest.fixture(scope="module")
def pages() -> Iterator[Origin]:
    with origin() as made:
        yield made


def vectors(name: str) -> list[dict[str, str]]:
    read: list[dict[str, str]] = json.loads((ROOT / "tests/vectors" / name).read_text())
    return read


def test_a_browser_draws_the_symbols_of_the_vectors(pages: Origin, tmp_path: Path) -> None:
    found = pages.step(tmp_path / "profile", "vectors")
    assert found["payloads"] == [vector["payload"] for vector in vectors("mechanisms.json")]
    assert found["ids"] == [vector["id"] for vector in vectors("envelope_ids.json")]


def test_one_answer_arrives_once_despite_kills(pages: Origin, tmp_path: Path) -> None:
    """At ε 20 lies are rare, so estimates differ from the answers with probability below 1e-8."""
    (tmp_path / "survey.toml").write_text(TOML)
    data, profile = tmp_path / "data", tmp_path / "profile"
    published = asked_json("survey", "publish", str(tmp_path / "survey.toml"), "--data", str(data))
    with running_server(data) as server:
        (entry,) = requests.get(f"{server.url}/v1/surveys", timeout=5).json()["surveys"]
        where = {"server": server.url, "key": entry["key"]}
        first = pages.step(profile, "first", **where)
        second = pages.step(profile, "second", **where)
        withdrawn = pages.step(profile, "withdraw", **where)
        unverified = pages.step(profile, "unverified", **where)
        results = all_results(published["id"], data)
    assert (first["before"], first["stored"]) == ("no-consent", False)
    assert first["both"] == ["already-answered", "queued"]
    assert second == {"consented": True, "again": "already-answered", "waiting": 0}
    assert withdrawn == {"queued": "queued", "after": "no-consent", "waiting": 0}
    assert unverified["status"] == "unavailable"
    assert "Ed25519" in unverified["detail"]
    last = results["rounds"][-1]
    assert last["reports"] == 1
    rows = {name: {row["label"]: row for row in part} for name, part in last["questions"].items()}
    assert rows["crashed"]["yes"]["estimate"] == pytest.approx(1, abs=0.01)
    assert rows["minutes"]["mean"]["estimate"] == pytest.approx(100, abs=0.01)
    assert rows["browser"]["safari"]["estimate"] == pytest.approx(1, abs=0.01)
