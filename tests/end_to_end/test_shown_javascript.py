"""JavaScript on a survey's page: it works unchanged, except for the location of its state."""

import re
import subprocess
from html import unescape
from pathlib import Path

import requests

from deniable.simulations.demo.server_process import running_server
from tests.command import asked_json
from tests.end_to_end.browser import ROOT
from tests.node import NODE
from tests.server.released import all_results
from tests.survey_texts import ALWAYS, bit, choice, number, survey_text

OPTIONS = ['a "quoted" one', "an <em>other</em> & more", "é"]
TOML = survey_text(bit() + number(-1.5, 3) + choice(OPTIONS, None), name="shown", **ALWAYS)
FLUSH = "\nconsole.log(await client.flush(60));\nawait client.close();\n"


def test_the_javascript_on_a_survey_s_page_sends_a_report(tmp_path: Path) -> None:
    (tmp_path / "survey.toml").write_text(TOML.replace('round = "month"', 'round = "once"'))
    data = tmp_path / "data"
    asked_json("survey", "publish", str(tmp_path / "survey.toml"), "--data", str(data))
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules/deniable").symlink_to(ROOT / "client/javascript")
    with running_server(data) as server, requests.Session() as session:
        session.get(server.page, timeout=10)
        page = session.get(f"{server.dashboard}/surveys/shown", timeout=10).text
        shown = [
            unescape(code) for code in re.findall(r"<pre[^>]*><code>(.*?)</code>", page, re.DOTALL)
        ]
        (code,) = (text for text in shown if text.startswith("import {"))
        code = code.replace("browser-storage", "file-storage").replace(
            "browserStorage()", 'browserStorage("state")'
        )
        code = code.replace("{ browserStorage }", "{ fileStorage as browserStorage }")
        (tmp_path / "app.mjs").write_text(code + FLUSH)
        done = subprocess.run([NODE, "app.mjs"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("0\n", "")
    (results,) = all_results("shown", data)["rounds"]
    assert results["reports"] == 1
