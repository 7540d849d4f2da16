"""Every study by its name, and where it lives: a study is imported when it is asked for.

`deniable --help` must not wait for numpy, so what stands here is all that help needs. Studies of
other packages are those of the entry points in the group `deniable.studies`.
"""

from __future__ import annotations

from importlib import import_module

from deniable.shared.cli.entry_points import EntryPoint, entry_points
from deniable.shared.errors import WrongUse
from deniable.simulations.frame.study import Study

SUMMARIES = {
    "minimax": "what privacy costs at best: local, central and none, against the limit",
    "bit": "a yes-or-no question: randomized response against a trusted count",
    "test": "people needed to tell two shares apart, in each model",
    "mean": "a bounded mean: local mechanisms against a trusted curator",
    "histogram": "a choice among options: local mechanisms against noisy bins",
    "mechanisms": "every mechanism against the least error that is possible, and its cost",
    "vector": "a mean of vectors: PrivUnit on devices against noise of a trusted server",
    "counts": "many counts of everybody: one drawn question against noise on each count",
    "select": "which of many is the most: votes, and conditions as in model selection",
    "median": "a median: local search against the exponential mechanism",
    "regression": "the slope of a line, and of a logistic regression: trusted servers, devices",
    "subsample": "a centre by subsample and aggregate, against a search on devices",
    "synthetic": "tables of two attributes, and people made from them: devices against BLR",
    "survey": "your own survey and population: intervals, people needed, attacks",
    "shuffle": "what a shuffler would buy, between devices and a trusted server",
    "attack": "what attackers learn of one person, from counts and from reports",
    "compose": "many rounds: ε in all, by every way of counting it",
    "repeat": "many rounds: what fresh, latched and two-stage noise give away",
}
GROUP = "deniable.studies"
_MODULES = {name: f"deniable.simulations.studies.{name}" for name in SUMMARIES}


def summaries() -> dict[str, str]:
    """Of every study that is installed; ours come first, and keep their names."""
    others = {point.name: f"own study, {point.module}" for point in _others()}
    return SUMMARIES | others


def load(name: str) -> Study:
    if name in _MODULES:
        study = import_module(_MODULES[name]).STUDY
    elif found := [point for point in _others() if point.name == name]:
        study = found[0].load()
    else:
        raise WrongUse(f"there is no study {name!r}; there are {', '.join(summaries())}")
    if not isinstance(study, Study):
        raise WrongUse(f"{name}: its entry point is no Study, but {type(study).__name__}")
    return study


def _others() -> list[EntryPoint]:
    return [point for point in entry_points(GROUP) if point.name not in _MODULES]
