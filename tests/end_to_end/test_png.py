"""Figures as PNG, drawn by a real browser on the page of a real server."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from queue import Empty, Queue
from struct import unpack

import pytest
from flask import Flask, Response, request

from tests.end_to_end.browser import CHROMIUM, FLAGS, NAMES, served
from tests.eventually import PATIENCE
from tests.server.results_data import NOW, fill
from tests.server.world import world

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason=f"no browser on PATH; install one of {', '.join(NAMES)}"
)
# Appended to the page's script; it presses the first button and posts the file that would be saved.
DRIVER = """
const found = (body) => fetch("/driven", { method: "POST", body });
URL.createObjectURL = (blob) => { found(blob); return "#"; };
addEventListener("unhandledrejection", ({ reason }) => found(String(reason)));
const pressed = document.querySelector("a[data-png] + button");
if (pressed) pressed.click(); else found("there is no button");
"""


def driven(app: Flask) -> Queue[bytes]:
    found: Queue[bytes] = Queue()

    @app.after_request
    def drive(response: Response) -> Response:
        """Send each response as one body, so that no file stays open when the browser is killed."""
        response.direct_passthrough = False
        body = response.get_data(as_text=True)
        response.close()
        response.set_data(body + (DRIVER if request.path.endswith("/png.js") else ""))
        return response

    @app.post("/driven")
    def take() -> str:
        found.put(request.get_data())
        return ""

    return found


def test_a_figure_is_a_png_at_twice_its_size(tmp_path: Path) -> None:
    with world(tmp_path / "data", NOW) as here:
        published, token, found = fill(here), here.token("analyst"), driven(here.app)
        path = f"/surveys/{published.id}"
        svg = here.client.get(f"{path}/figures/crashed/round.svg", headers=here.bearer("analyst"))
        width, height = (int(svg.text.split(f'{side}="')[1].split('"')[0])
                         for side in ("width", "height"))  # fmt: skip
        with served(here.at_one_address) as url:
            address = f"{url}{path}?token={token}"
            profile = f"--user-data-dir={tmp_path / 'profile'}"
            command = [str(CHROMIUM), *FLAGS, profile, address]
            with subprocess.Popen(
                command,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            ) as browser:
                try:
                    image = found.get(timeout=PATIENCE)
                except Empty:
                    raise AssertionError("the browser has sent no image") from None
                finally:
                    os.killpg(browser.pid, signal.SIGKILL)
    assert image[:8] == b"\x89PNG\r\n\x1a\n", image[:200]
    assert unpack(">II", image[16:24]) == (2 * width, 2 * height)
    assert len(image) > 5_000, "the image is nearly empty"
