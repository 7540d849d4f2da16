"""The models of many counts of everybody, and how they look."""

from __future__ import annotations

from deniable.simulations.engine.comparison import Series, look

ONE_QUESTION = Series("local", "one-question", "devices, one drawn question", look(0))
ALL = Series("local", "all-questions", "devices, all questions", look(5))
GEOMETRIC = Series("central", "geometric", "trusted, geometric", look(1))
CUBE = Series("central", "cube", "trusted, cube", look(4))
GAUSSIAN = Series("central", "gaussian", "trusted, Gaussian", look(3))
NONE = Series("none", "share", "no privacy", look(2))
SERIES = (ONE_QUESTION, ALL, GEOMETRIC, CUBE, GAUSSIAN, NONE)
