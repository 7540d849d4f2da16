"""A verb of the `deniable` command: each part brings its own, in its `verbs.py`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass


@dataclass(frozen=True)
class Verb:
    """`run` returns the exit code: 0 well, 1 a finding. Heavy imports belong inside it."""

    name: str
    summary: str
    arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]
    _: KW_ONLY
    example: str  # as it is written in a shell
    option: str | None = None  # where several parts bring a verb of this name, this one is meant by
    also: tuple[Verb, ...] = ()  # those of the other parts
