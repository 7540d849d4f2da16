"""The options of the minimax study, lists with commas, and the cells that they ask for."""

from __future__ import annotations

import math
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from itertools import product
from typing import TypeVar

from deniable.shared.errors import InvalidEpsilon, WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.frame.study import Cell, Options
from deniable.simulations.studies.minimax.estimators import MODELS
from deniable.simulations.studies.minimax.measure import GROUPS

MOST_USERS = 10**10
Value = TypeVar("Value")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--moments", default="2,3,4,inf", metavar="K,...", help="E|X|^k <= 1 (default %(default)s)"
    )
    parser.add_argument(
        "--epsilon", default="0.1,0.5,1,2,4", metavar="E,...", help="ε (default %(default)s)"
    )
    parser.add_argument(
        "--users",
        default="1e2,1e3,1e4,1e5,1e6,1e7,1e8,1e9",
        metavar="N,...",
        help="numbers of people (default %(default)s)",
    )
    parser.add_argument(
        "--repetitions",
        default="10000",
        metavar="R",
        help="populations drawn for each measured risk, more where it must be known more closely "
        "(default %(default)s)",
    )


def read_options(chosen: Namespace) -> Options:
    repetitions = _whole("--repetitions", chosen.repetitions)
    if repetitions < 2 * GROUPS:
        raise WrongUse(f"--repetitions takes a whole number from {2 * GROUPS}, got {repetitions}")
    return {
        "moments": _list("--moments", chosen.moments, _moments),
        "epsilon": _list("--epsilon", chosen.epsilon, _epsilon),
        "users": _list("--users", chosen.users, _users),
        "repetitions": repetitions,
    }


def make_cells(options: Options) -> list[Cell]:
    """One for each estimator, k, ε and number of people; without privacy ε makes no difference,
    so there a cell has all of them."""
    every_epsilon = [",".join(options["epsilon"])]
    return [
        {
            "estimator": estimator,
            "moments": moments,
            "epsilon": epsilon,
            "users": users,
            "repetitions": options["repetitions"],
        }
        for moments, users, estimator in product(options["moments"], options["users"], MODELS)
        for epsilon in (every_epsilon if estimator == "mean" else options["epsilon"])
    ]


def _list(option: str, text: str, read: Callable[[str, str], Value]) -> list[Value]:
    """Each value once, in the order given."""
    values = [read(option, part.strip()) for part in text.split(",") if part.strip()]
    if not values:
        raise WrongUse(f"{option} takes values with commas between them, got none")
    return list(dict.fromkeys(values))


def _moments(option: str, text: str) -> str:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 2:
        raise WrongUse(f"{option} takes numbers from 2, or inf, got {text!r}")
    return f"{value:.15g}"


def _epsilon(option: str, text: str) -> str:
    try:
        return str(Epsilon(text))
    except InvalidEpsilon as error:
        raise WrongUse(f"{option}: {error}") from None


def _users(option: str, text: str) -> int:
    users = _whole(option, text)
    if not 1 <= users <= MOST_USERS:
        raise WrongUse(f"{option} takes numbers from 1 to {MOST_USERS:g}, got {text!r}")
    return users


def _whole(option: str, text: str) -> int:
    """Also in the form 1e6."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value != int(value):
        raise WrongUse(f"{option} takes whole numbers, like 1000 or 1e6, got {text!r}")
    return int(value)
