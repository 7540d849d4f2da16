"""Errors compared with those of other libraries, which run their own code.

Shares of 128 options are estimated; the true shares follow Zipf's law.

    ./run bench --long --only peers

100,000 people answer, at ε 1 and 4. The other libraries are installed into a temporary environment
(pure-ldp needs more packages than it declares). Both sides randomize every answer.

The measures are the mean squared error of the unbiased estimates, and of the estimates that each
side shows by default: the nearest possible shares here, and clipped and rescaled shares in
multi-freq-ldpy. Each mechanism has TRIALS trials. A ratio may exceed 1 by four standard errors.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.shares import shares
from deniable.server.intake.tally import tally
from deniable.shared.envelope import encode_report
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanism import kernel_draw
from deniable.shared.privacy.mechanisms import support_design
from deniable.shared.survey.document import parse_toml
from tests.bench.measure import Measurement
from tests.survey_texts import choice, survey_text

THEIRS = Path(__file__).with_name("peers_theirs.py")
PACKAGES = ("multi-freq-ldpy", "pure-ldp", "statsmodels", "scikit-learn", "pandas")
PEOPLE, OPTIONS, EPSILONS, TRIALS = 100_000, 128, ("1", "4"), 12
AT_ONCE = 10_000  # reports in one envelope

Errors = dict[str, list[float]]  # by kind of estimate, one per trial


def measurements() -> Iterator[Measurement]:
    held = zipf()
    with tempfile.TemporaryDirectory() as folder:
        python = installed(Path(folder))
        for epsilon in EPSILONS:
            mine = ours(epsilon, held)
            asked = json.dumps({"epsilon": float(epsilon), "held": held.tolist(), "trials": TRIALS})
            done = subprocess.run(
                [python, str(THEIRS)], input=asked, capture_output=True, text=True, check=True
            )
            for name, errors in json.loads(done.stdout).items():
                for kind in errors:
                    yield compared_with(
                        f"{kind} at ε {epsilon}, compared with {name}", mine[kind], errors[kind]
                    )


def zipf() -> npt.NDArray[np.int64]:
    weights = 1 / np.arange(1, OPTIONS + 1)
    held: npt.NDArray[np.int64] = np.floor(PEOPLE * weights / weights.sum()).astype(np.int64)
    held[0] += PEOPLE - held.sum()
    return held


def installed(folder: Path) -> str:
    uv, python = str(Path(sys.executable).with_name("uv")), str(folder / "bin" / "python")
    for command in (
        [uv, "venv", "-q", "--python", sys.executable, str(folder)],
        [uv, "pip", "install", "-q", "--python", python, *PACKAGES],
    ):
        subprocess.run(command, check=True)
    return python


def ours(epsilon: str, held: npt.NDArray[np.int64]) -> Errors:
    """Return the errors of our default mechanism, from the device to the estimate."""
    survey = parse_toml(survey_text(choice(OPTIONS, None, epsilon=epsilon)))
    design = support_design("choice", Epsilon(epsilon), OPTIONS)
    truth, answers = held / PEOPLE, np.repeat(np.arange(OPTIONS), held).tolist()
    errors: Errors = {"unbiased": [], "as shown": []}
    for _ in range(TRIALS):
        sent = [encode_report(survey, [design.randomize(a, kernel_draw)]) for a in answers]
        parts = [sent[first : first + AT_ONCE] for first in range(0, PEOPLE, AT_ONCE)]
        counts = np.sum([tally(survey, b"".join(part), len(part)) for part in parts], axis=0)
        found = shares(counts, PEOPLE, design)
        errors["unbiased"].append(float(np.mean((found.estimate - truth) ** 2)))
        errors["as shown"].append(float(np.mean((found.consistent - truth) ** 2)))
    return errors


def compared_with(name: str, mine: list[float], theirs: list[float]) -> Measurement:
    apart = math.hypot(*(stdev(errors) / mean(errors) for errors in (mine, theirs))) / math.sqrt(
        TRIALS
    )
    note = f"mean squared error; standard error of the ratio {apart:.0%}"
    return Measurement(name, 1e7 * mean(mine), 1e7 * mean(theirs), "e-7", 1 + 4 * apart, note=note)
