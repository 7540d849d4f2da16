"""Real browser, if the machine has one, and a separate origin for the page that it opens."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from queue import Empty, Queue
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from werkzeug.serving import WSGIRequestHandler, make_server

from tests.client.scripted import QuietServer, answering
from tests.eventually import PATIENCE

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

ROOT = Path(__file__).parent.parent.parent
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # pages are trusted, and root in a container cannot run the sandbox
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
FOLDERS = {
    "/src/": ROOT / "client/javascript/src",
    "/vectors/": ROOT / "tests/vectors",
    "/": Path(__file__).parent,
}


class Origin:
    """Server of the page, the client's sources and the vectors; it receives the page's results."""

    def __init__(self, url: str, found: Queue[Any]) -> None:
        self.url, self.found = url, found

    def step(
        self, profile: Path, step: str, page: str = "page.html", **asked: str
    ) -> Mapping[str, Any]:
        """Return the page's result for this step.

        The browser is killed as soon as the result arrives.
        """
        address = f"{self.url}/{page}?{urlencode({'step': step, **asked})}"
        command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", address]
        with (profile.parent / "browser.log").open("ab") as log:
            browser = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            found: Mapping[str, Any] = self.found.get(timeout=PATIENCE)
        except Empty:
            raise AssertionError((profile.parent / "browser.log").read_text()[-2000:]) from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(browser.pid, signal.SIGKILL)
            browser.wait()
        return found


@contextmanager
def origin(more: Mapping[str, Path] = MappingProxyType({})) -> Iterator[Origin]:
    """Serve the folders, and `more` of them by the beginnings of their addresses."""
    found: Queue[Any] = Queue()
    folders = {**more, **FOLDERS}

    class Handler(Files):
        def translate_path(self, path: str) -> str:
            path = path.partition("?")[0]
            prefix = next(prefix for prefix in folders if path.startswith(prefix))
            return str(folders[prefix] / Path(path.removeprefix(prefix)).name)

        def do_POST(self) -> None:
            found.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

    Handler.extensions_map = {".js": "text/javascript", ".html": "text/html", "": "text/plain"}
    with answering(QuietServer(("127.0.0.1", 0), Handler)) as url:
        yield Origin(url, found)


class Files(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Print nothing."""


class Silent(WSGIRequestHandler):
    def log(self, *_: object, **__: object) -> None:
        """Print nothing, because each failure is reported once, elsewhere."""


def served(app: WSGIApplication) -> AbstractContextManager[str]:
    """Yield the address of the real application, for a browser."""
    return answering(make_server("127.0.0.1", 0, app, threaded=True, request_handler=Silent))
