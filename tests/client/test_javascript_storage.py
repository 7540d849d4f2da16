"""The JavaScript client's files: what it keeps, and what it erases."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

from deniable.shared.survey.keys import public_hex
from tests.client.scripted import KEY, OTHER_KEY, Script, bit, document, entry
from tests.eventually import PATIENCE
from tests.node import NODE

ROOT = Path(__file__).parents[2]
BEGIN = """
    import {{ Client, Policy }} from "./client/javascript/src/index.js";
    import {{ fileStorage }} from "./client/javascript/src/file-storage.js";
    const policy = new Policy({{ keys: ["{key}"], questions: {{ crashed: "bit" }} }});
    const now = () => Date.parse("2026-12-10T12:00:00Z");
    const storage = fileStorage({folder});
    const client = new Client("{url}", {{ policy, storage, now, sendWithin: 3600 }});
    const answer = async (name) => (await client.answer(name, {{ crashed: true }})).status;
"""


def run(script: Script, folder: Path, program: str) -> list[object]:
    """Return what a program prints, which begins with a client."""
    begin = BEGIN.format(key=public_hex(KEY), folder=json.dumps(str(folder)), url=script.url)
    done = subprocess.run(
        [NODE, "--input-type=module", "--eval", begin + program + "process.exit()"],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_forgetting_removes_no_file_of_the_app(script: Script, tmp_path: Path) -> None:
    """Not next to the client's folder, and nothing strange within it; the ledger stays."""
    script.publish(document(questions=bit("crashed", "0.5")))
    others = {"settings.json": "{}", "report-2026": "the app's", "deniable/notes.txt": "own"}
    for name, content in others.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    program = """
        await client.consent(true);
        console.log(JSON.stringify([await answer("app-health"), await client.forget()]));
    """
    assert run(script, tmp_path, program) == [["queued", True]]
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    (mark,) = (name for name in left if name.startswith("deniable/round-"))
    assert left == {*others, "deniable/charge-1", mark}


def test_a_ledger_without_a_subfolder_is_found(script: Script, tmp_path: Path) -> None:
    script.publish(document(questions=bit("crashed", "0.5")))
    program = """
        await client.consent(true);
        console.log(JSON.stringify(await answer("app-health")));
    """
    assert run(script, tmp_path, program) == ["queued"]
    for path in (tmp_path / "deniable").iterdir():
        path.rename(tmp_path / path.name)
    (tmp_path / "deniable").rmdir()
    assert run(script, tmp_path, program) == ["already-answered"]
    assert {path.name for path in tmp_path.iterdir()} == {"deniable"}


def test_nothing_unsigned_is_kept(script: Script, tmp_path: Path) -> None:
    """A server without a key made the client keep megabytes. The reason is kept, by the name."""
    padding = b" " * 500_000
    for number in range(10):
        script.surveys.append(entry(document(f"strange-{number}") + padding, OTHER_KEY))
    script.publish(document(questions=bit("crashed", "0.5")))
    program = """
        await client.consent(true);
        for (const name of ["strange-3", "app-health"]) {
            console.log(JSON.stringify(await answer(name)));
        }
    """
    assert run(script, tmp_path, program) == ["refused", "queued"]
    (kept,) = (tmp_path / "deniable").glob("list-*")
    assert kept.stat().st_size < 10_000


def test_files_of_killed_processes_are_removed_after_an_hour(
    script: Script, tmp_path: Path
) -> None:
    """A file of a process that may still write it stays, and so does every file of the app."""
    folder = tmp_path / "deniable"
    folder.mkdir()
    for path in (folder / "temporary-old", folder / "temporary-new", tmp_path / "temporary-app"):
        path.write_text("{}")
        hours = 0 if path.name == "temporary-new" else 2
        os.utime(path, (time.time() - 3600 * hours,) * 2)
    assert run(script, tmp_path, "console.log(await client.consent(true));") == [True]
    left = {path.name for path in tmp_path.rglob("temporary-*")}
    assert left == {"temporary-new", "temporary-app"}


def test_a_database_is_refused_in_plain_words() -> None:
    program = """
        import { fileStorage } from "./client/javascript/src/file-storage.js";
        for (const scheme of ["postgresql", "postgres"]) {
            try { fileStorage(`${scheme}://app@db/app`); }
            catch (error) { console.log(error.message); }
        }
    """
    done = subprocess.run(
        [NODE, "--input-type=module", "--eval", program],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    says = "fileStorage: give a folder; only the Python client keeps its state in PostgreSQL"
    assert (done.stdout.splitlines(), done.stderr) == ([says, says], "")
