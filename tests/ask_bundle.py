"""Bundle of the respondent page's script, made from the JavaScript client by the bundler.

python -m tests.ask_bundle    rewrites the file that the server ships
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.npm import npm_packages

ROOT = Path(__file__).parents[1]
BUNDLE = ROOT / "server/deniable/server/pages/static/ask.js"
ENTRY = "client/javascript/src/ask/page.js"
OPTIONS = ("--bundle", "--minify", "--format=esm", "--target=es2022", "--charset=utf8")


def bundled() -> bytes:
    """Return the bundle's bytes: the same for the same sources and the locked bundler."""
    esbuild = npm_packages() / "node_modules/esbuild/bin/esbuild"
    command = [str(esbuild), ENTRY, *OPTIONS, "--legal-comments=none", "--log-level=warning"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
    return done.stdout


if __name__ == "__main__":
    BUNDLE.write_bytes(bundled())
