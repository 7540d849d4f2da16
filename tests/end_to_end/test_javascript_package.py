"""The package of the JavaScript client: packed, installed, typed, bundled, and used in every place.

An empty folder installs the packed file without a network. What it installed is checked by a strict
TypeScript, run in Node, bundled, and used in a real browser: in a page, a worker, a service worker.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import requests

from deniable.simulations.demo.server_process import running_server
from tests.command import asked_json
from tests.end_to_end.browser import CHROMIUM, NAMES, ROOT, origin
from tests.eventually import PATIENCE, eventually
from tests.node import NODE
from tests.npm import npm, npm_packages
from tests.server.relays import relaying
from tests.server.released import all_results
from tests.shared.test_sealing import PUBLIC
from tests.survey_texts import ALWAYS, bit, survey_text

MAX_BYTES_TO_ANSWER = (19_100, 21_000)  # brotli, gzip
MAX_BYTES = (23_500, 25_900)
SOURCE = ROOT / "client/javascript"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pack the client, and install the file in an empty folder. The package needs no other."""
    folder = tmp_path_factory.mktemp("app")
    (packed,) = json.loads(npm(SOURCE, "pack", "--json", "--pack-destination", str(folder)))
    names = {file["path"] for file in packed["files"]}
    assert {"LICENSE", "README.md", "package.json", "src/index.js", "src/index.d.ts"} <= names
    assert {Path(name).suffix for name in names} == {"", ".md", ".json", ".js", ".ts"}
    assert {name.split("/")[0] for name in names} == {"LICENSE", "README.md", "package.json", "src"}
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    npm(folder, "install", "--offline", str(folder / packed["filename"]))
    packages = [path.name for path in (folder / "node_modules").iterdir() if path.is_dir()]
    assert packages == ["deniable"]
    return folder


@pytest.fixture(scope="module")
def bundle(installed: Path) -> Path:
    """An app's bundle for old script tags: one file that leaves nothing to load."""
    exports = 'export { browserStorage as storage } from "deniable/browser-storage";'
    (installed / "app.js").write_text(f'export {{ Client, Policy }} from "deniable"; {exports}')
    output = installed / "bundle"
    bundled(installed, "app.js", f"--outdir={output}", "--format=iife", "--global-name=deniable")
    assert [path.name for path in output.iterdir()] == ["app.js"]
    return output


def bundled(folder: Path, *arguments: str) -> str:
    esbuild = npm_packages() / "node_modules/esbuild/bin/esbuild"
    done = subprocess.run(
        [esbuild, *arguments, "--bundle", "--minify", "--log-level=warning"],
        cwd=folder, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def node(folder: Path, file: str) -> str:
    done = subprocess.run(
        [NODE, file], cwd=folder, capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_license_of_the_package_is_the_project_s() -> None:
    assert (SOURCE / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_an_installed_package_compiles_under_strict_typescript(installed: Path) -> None:
    """Also without `skipLibCheck`, so that the declarations themselves are checked."""
    shutil.copy(ROOT / "tests/end_to_end/typed_app.ts", installed)
    compiler = npm_packages() / "node_modules/typescript/bin/tsc"
    for resolution in ("nodenext", "bundler"):
        module = {"nodenext": "nodenext", "bundler": "esnext"}[resolution]
        done = subprocess.run(
            [NODE, compiler, "--strict", "--noEmit", "--exactOptionalPropertyTypes",
             "--module", module, "--moduleResolution", resolution, "--target", "es2022",
             "--lib", "es2022,dom", "typed_app.ts"],
            cwd=installed, capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert done.stdout == ""


def test_an_installed_package_and_its_bundle_run_in_node(installed: Path) -> None:
    (installed / "run.js").write_text("""
        import { Client, Policy } from "deniable";
        import { fileStorage } from "deniable/file-storage";
        const policy = new Policy({ keys: ["0".repeat(64)], questions: { crashed: "bit" } });
        const options = { policy, storage: fileStorage("state"), allowCi: true };
        const client = new Client("http://127.0.0.1:9", options);
        await client.consent(true);
        const { status, detail } = await client.answer("app-health", { crashed: true });
        console.log(status, detail, await client.forget());
        await client.close();
    """)
    bundled(installed, "run.js", "--platform=node", "--format=esm", "--outfile=bundled.js")
    line = "unavailable the list of surveys could not be fetched; try again later true\n"
    assert [node(installed, file) for file in ("run.js", "bundled.js")] == [line, line]


def test_a_page_loads_few_bytes_to_answer(installed: Path, bundle: Path) -> None:
    """Size of the code, minified by esbuild and compressed. The package itself has readable source.

    Descriptions and budgets load when they are first used, so they are measured apart.
    """
    output = installed / "split"
    bundled(installed, "app.js", f"--outdir={output}", "--format=esm", "--splitting")
    loaded, pieces = ["app.js"], b""
    for name in loaded:
        text = (output / name).read_text()
        loaded += [file for file in STATIC_IMPORT.findall(text) if file not in loaded]
        pieces += text.encode()
    size, whole = compressed(pieces), compressed((bundle / "app.js").read_bytes())
    print(f"to answer: {size}; with descriptions and budgets: {whole} (bytes: brotli, gzip)")
    for bytes_, limits in ((size, MAX_BYTES_TO_ANSWER), (whole, MAX_BYTES)):
        assert all(map(int.__le__, bytes_, limits))


STATIC_IMPORT = re.compile(r'(?:from|import)"\./([^"]+)"')


def compressed(code: bytes) -> tuple[int, int]:
    """Return the sizes with brotli and with gzip."""
    program = """
        const zlib = require("node:zlib"), bytes = require("node:fs").readFileSync(0);
        const sizes = [zlib.brotliCompressSync(bytes), zlib.gzipSync(bytes, { level: 9 })];
        console.log(JSON.stringify(sizes.map(({ length }) => length)));
    """
    done = subprocess.run([NODE, "--eval", program], input=code, capture_output=True, check=True)
    brotli, gzip = json.loads(done.stdout)
    return brotli, gzip


@pytest.mark.skipif(
    CHROMIUM is None, reason=f"no browser on PATH; install one of {', '.join(NAMES)}"
)
def test_every_place_in_a_browser_answers_and_leaving_loses_nothing(
    bundle: Path, tmp_path: Path
) -> None:
    """A page, a bundle, a relay, two workers; then 7 visits that end once the report is queued.

    The relay is another origin too, whose replies the page may read.
    """
    data = tmp_path / "data"
    for name, more in (("edges", {}), ("other-edges", {}), ("sealed-edges", SEALED)):
        toml = survey_text(bit(epsilon="1"), name=name, **ALWAYS | {"round": "once"} | more)
        (tmp_path / f"{name}.toml").write_text(toml)
        asked_json("survey", "publish", str(tmp_path / f"{name}.toml"), "--data", str(data))
    with (
        running_server(data) as server,
        relaying(tmp_path, server.url) as relay,
        origin({"/bundle/": bundle}) as pages,
    ):
        entry = requests.get(f"{server.url}/v1/surveys", timeout=5).json()["surveys"][0]
        where = {"server": server.url, "key": entry["key"], "relay": relay.url}
        found = pages.step(tmp_path / "profile", "", page="edges.html", **where)
        # each place, the report that was not withdrawn, visits 1, 3, 5, 7
        eventually(
            lambda: reports(data, "edges") >= 4 + 1 + 4 and reports(data, "other-edges") >= 3
        )
        arrived = reports(data, "edges"), reports(data, "other-edges")
    assert found == {
        "page": 0,
        "bundle": 0,
        "relay": 0,
        "worker": [0, "1", True, ""],
        "serviceWorker": [0, "1", True, UNLOADED],
        "versionChange": ["done", "no-consent", "queued", "done", "unavailable"],
        "withdrawnElsewhere": 0,
    }
    assert arrived == (4 + 1 + 4, 3)


SEALED = {"sealed_to": PUBLIC}
UNLOADED = (
    "describe and budget could not be loaded; in a service worker, pass `words` to the client"
)


def reports(data: Path, survey: str) -> int:
    rounds = all_results(survey, data)["rounds"]
    return sum(row["reports"] for row in rounds)
