"""`map_merge`: it processes every item once, with the same result even if workers die."""

import os
import signal
from pathlib import Path

import pytest

from deniable.server.parallel import map_merge
from deniable.shared.errors import Unfinished, WrongUse

WHERE = ("local", "pool", "dask")


def shout(item: str) -> str:
    return item.upper()


def join(text: str, piece: str) -> str:
    """Join two results; the operation is neither associative nor commutative."""
    return f"({text}{piece})"


def die_once(task: tuple[str, str]) -> str:
    """Kill the calling process on "d", but only the first time."""
    folder, item = task
    mark = Path(folder) / item
    if item == "d" and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return item.upper()


def die_always(item: str) -> str:
    if item in "dg":
        os.kill(os.getpid(), signal.SIGKILL)
    return item.upper()


def fail(item: str) -> str:
    raise ArithmeticError(item)


def take_last(_: dict[str, str], found: dict[str, str]) -> dict[str, str]:
    return found


def memory_settings(_: int) -> dict[str, str]:
    text = Path(f"/proc/{os.getpid()}/environ").read_text()
    return dict(entry.split("=", 1) for entry in text.split("\0") if entry.startswith("MALLOC_"))


@pytest.mark.parametrize("where", WHERE[:2])
def test_the_result_equals_a_loop_in_order(where: str) -> None:
    assert map_merge(shout, "abc", join, "", where) == "(((A)B)C)"


@pytest.mark.parametrize("where", WHERE[:2])
def test_every_result_arrives_once(where: str) -> None:
    arrived: list[tuple[int, str]] = []

    def note(number: int, result: str) -> None:
        arrived.append((number, result))

    map_merge(shout, "abcdefghij", join, "", where, note)
    assert sorted(arrived) == list(enumerate("ABCDEFGHIJ"))


def test_the_result_of_no_items_is_the_initial_value() -> None:
    assert map_merge(shout, "", join, "zero", "pool") == "zero"


@pytest.mark.parametrize("where", ["pool", pytest.param("dask", marks=pytest.mark.long)])
def test_a_worker_killed_in_the_middle_changes_nothing(where: str, tmp_path: Path) -> None:
    items = [(str(tmp_path), item) for item in "abcdefghij"]
    assert map_merge(die_once, items, str.__add__, "", where) == "ABCDEFGHIJ"
    assert (tmp_path / "d").exists()


@pytest.mark.long
def test_an_item_that_kills_every_worker_is_named_after_the_rest_is_done() -> None:
    arrived: list[str] = []
    with pytest.raises(Unfinished, match="'d', 'g'") as error:
        map_merge(die_always, "abcdefghij", join, "", "pool", lambda _, r: arrived.append(r))
    assert error.value.items == ["'d'", "'g'"]
    assert sorted(arrived) == list("ABCEFHIJ")


@pytest.mark.parametrize("where", WHERE[:2])
def test_an_error_in_the_function_reaches_the_caller(where: str) -> None:
    with pytest.raises(ArithmeticError, match="a"):
        map_merge(fail, "a", join, "", where)


@pytest.mark.long
def test_workers_of_our_own_cluster_keep_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the environment that the kernel shows for a started worker.

    A change after the start would have no effect. This process keeps its own environment.
    """
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
    before = dict(os.environ)
    found: dict[str, str] = map_merge(memory_settings, [0], take_last, {}, "dask")
    assert int(found["MALLOC_TRIM_THRESHOLD_"]) == 2**30
    assert int(found["MALLOC_MMAP_THRESHOLD_"]) == 2**25
    assert dict(os.environ) == before


def test_an_unknown_back_end_is_wrong_use() -> None:
    with pytest.raises(WrongUse, match="'moon'"):
        map_merge(shout, "a", join, "", "moon")
