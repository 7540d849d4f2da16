"""Every study by its name, and where it lives: a study is imported when it is asked for.

`deniable --help` must not wait for numpy, so what stands here is all that help needs.
"""

from __future__ import annotations

from importlib import import_module

from deniable.simulations.frame.study import Study

SUMMARIES = {
    "minimax": "what privacy costs at best: local, central and none, against the limit",
    "bit": "a yes-or-no question: randomized response against a trusted count",
    "mean": "a bounded mean: local mechanisms against a trusted curator",
    "histogram": "a choice among options: local mechanisms against noisy bins",
    "median": "a median: local search against the exponential mechanism",
    "survey": "your own survey and population: intervals, people needed, attacks",
    "repeat": "many rounds: what fresh, latched and two-stage noise give away",
}
_MODULES = {name: f"deniable.simulations.studies.{name}" for name in SUMMARIES}


def load(name: str) -> Study:
    study = import_module(_MODULES[name]).STUDY
    assert isinstance(study, Study)
    return study
