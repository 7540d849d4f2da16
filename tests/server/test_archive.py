"""Archives: every back-end recounts exactly the server's tallies, or publishes nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import distributed
import numpy as np
import pyarrow as pa
import pytest
from pyarrow.parquet import ParquetFile, write_table

from deniable.server.archive import (
    Fold,
    Part,
    archive_round,
    fold_part,
    recount,
    round_files,
    rounds_of,
)
from deniable.server.cli.archive import recounted
from deniable.server.intake.commit import commit
from deniable.server.store import (
    Cells,
    Place,
    PublishedSurvey,
    RoundTally,
    Upload,
    create_store,
    open_store,
)
from deniable.shared.errors import Refused, Unfinished, WrongUse
from tests.command import asked_json, run
from tests.plausible import assert_plausible
from tests.server.dying import die_always, die_once
from tests.server.surveys import (
    EACH_KIND,
    MIXED,
    envelope,
    expected_cells,
    published,
    survey,
)
from tests.server.test_deleting import option
from tests.server.test_verbs import refused

OVER = {"opens": date(2025, 1, 1), "closes": date(2025, 3, 31), "minimum_reports": 1}
JANUARY = (2025 - 1970) * 12
SENT = (1, 50, 1, 200, 7)  # reports in each envelope


def fill(place: Place, questions: str = EACH_KIND, **changes: object) -> PublishedSurvey:
    """Store three ended rounds, with envelopes of one report and of several."""
    with create_store(place) as store:
        asked = published(store, survey(questions, **(OVER | changes)))
        for number in range(3):
            take(store, asked, JANUARY + number)
        store.keep_day(datetime.now(UTC).date())
    return asked


def take(store: object, asked: PublishedSurvey, number: int) -> None:
    uploads, first = list[Upload](), 1
    for count in SENT:
        e = envelope(asked, first, count=count, round_number=number)
        uploads.append(Upload(asked, e.round, e.id, e.count, e.payload))
        first += count
    with store.transaction() as transaction:  # type: ignore[attr-defined]  # of either store
        list(commit(transaction, uploads))


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit parts to 20 reports, so that a few reports need several parts."""
    monkeypatch.setattr(round_files, "MAX_PART_REPORTS", 20)


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """Yield the address of a Dask scheduler with two workers."""
    with distributed.LocalCluster(  # type: ignore[no-untyped-call]  # it ships no types
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as cluster:
        yield f"dask:{cluster.scheduler_address}"


@pytest.fixture
def archive(tmp_path: Path, small_parts: None) -> Path:
    data, made = tmp_path / "data", tmp_path / "archive"
    fill(data)
    assert run("archive", "--data", data, "--to", made).returncode == 0
    return made


# Equal counts


@pytest.mark.parametrize(
    ("questions", "changes"),
    [(EACH_KIND, {}), (MIXED, {"ask": 1}), (EACH_KIND, {"cross": [["browser", "crashed"]]})],
)
def test_a_recount_equals_the_server_s_tally(
    place: Place, tmp_path: Path, small_parts: None, questions: str, changes: dict[str, object]
) -> None:
    asked = fill(place, questions, **changes)
    done = asked_json("archive", asked.name, *option(place), "--to", tmp_path / "archive")
    assert str(done).count("'round'") == 3
    rounds = rounds_of(tmp_path / "archive")
    assert sum(len(round_.manifest.parts) for round_ in rounds) > 20
    tallies = recount(rounds)[asked.id]
    cells = expected_cells(asked.survey, range(1, 1 + sum(SENT)))
    assert [(t.round, t.reports, t.cells.tolist()) for t in tallies] == [
        (JANUARY + number, sum(SENT), cells) for number in range(3)
    ]


def test_the_results_of_an_archive_are_those_of_the_store(tmp_path: Path, archive: Path) -> None:
    results = json.loads(run("results", "app-health", "--data", tmp_path / "data", "--json").stdout)
    (again,) = json.loads(run("recount", archive, "--json").stdout)["surveys"]
    assert again["rounds"] == results["rounds"]
    (one,) = json.loads(run("recount", rounds_of(archive)[1].folder, "--json").stdout)["surveys"]
    # the previous round is not in the archive
    (alone,) = one["rounds"]
    assert alone == results["rounds"][1] | {"change": None}
    assert "Round 660" in run("recount", archive).stdout
    assert run("recount", archive, "--csv").stdout.startswith("survey,name,round")


# Back-ends and workers that die


def shown(archive: Path, where: str, fold: Callable[[Part], Fold] = fold_part) -> bytes:
    tallies = recount(rounds_of(archive), where, fold=fold)
    return repr(
        {name: [(t.round, t.reports, t.cells.tolist()) for t in tally]
         for name, tally in tallies.items()}
    ).encode()  # fmt: skip


@pytest.mark.parametrize("where", ["dask", pytest.param("pool", marks=pytest.mark.long)])
def test_every_back_end_gives_the_same_bytes_even_if_a_worker_is_killed(
    archive: Path, where: str, request: pytest.FixtureRequest
) -> None:
    """Every back-end also names a corrupted part."""
    place = request.getfixturevalue("scheduler") if where == "dask" else where
    assert shown(archive, place, die_once) == shown(archive, "local")
    (died,) = archive.glob("*/661/died")
    flip(died.with_name("part-00003.parquet"))
    done = run("recount", archive, "--on", place, "--json")
    assert (done.returncode, done.stdout) == (3, "")
    assert "/661/part-00003.parquet" in done.stderr


def test_a_pool_gives_the_same_bytes(archive: Path) -> None:
    assert shown(archive, "pool") == shown(archive, "local")


@pytest.mark.long
def test_a_part_that_kills_every_worker_is_named_and_nothing_is_published(archive: Path) -> None:
    with pytest.raises(Unfinished, match=r"'.{12}/661/part-00004.parquet'"):
        recount(rounds_of(archive)[1:2], "pool", fold=die_always)


# Corrupted parts


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def other(path: Path) -> None:
    """Replace the part by another part of the same round."""
    path.write_bytes(path.with_name("part-00001.parquet").read_bytes())


@pytest.mark.parametrize("poison", [cut, flip, other, Path.unlink])
def test_a_corrupted_part_is_named_and_nothing_is_published(
    archive: Path, poison: Callable[[Path], None]
) -> None:
    (path,) = archive.glob("*/661/part-00003.parquet")
    poison(path)
    done = run("recount", archive, "--json")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"{path.parts[-3][:12]}/661/part-00003.parquet" in done.stderr
    assert "nothing was counted" in done.stderr
    assert "part-00002" not in done.stderr


def test_all_corrupted_parts_are_named_together(archive: Path) -> None:
    for path in archive.glob("*/66?/part-00003.parquet"):
        cut(path)
    said = refused_by_recount(archive)
    assert all(f"/{number}/part-00003" in said for number in (660, 661, 662))


def refused_by_recount(archive: Path) -> str:
    with pytest.raises(Refused) as caught:
        recount(rounds_of(archive))
    return str(caught.value)


def rewritten(archive: Path, change: Callable[[bytes], object]) -> Path:
    """Replace the reports of a part and update the part's digest in the manifest.

    Only a recount reveals the change.
    """
    (path,) = archive.glob("*/661/part-00003.parquet")
    values = ParquetFile(path).read().column(0).to_pylist()
    made = change(b"".join(values))
    column = made if isinstance(made, pa.Array) else pa.array(made, pa.binary(3))
    write_table(pa.table([column], names=["report"]), path)
    digest(path)
    return path


def digest(path: Path) -> None:
    import hashlib

    file = path.with_name("manifest.json")
    manifest = json.loads(file.read_text())
    for part in manifest["parts"]:
        if part["file"] == path.name:
            part["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
            part["bytes"] = path.stat().st_size
    file.write_text(json.dumps(manifest))


def rows(content: bytes) -> list[bytes | None]:
    return [content[first : first + 3] for first in range(0, len(content), 3)]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda content: rows(b"\xff" + content[1:]), "symbol out of range"),
        (lambda content: rows(content)[:-1], "reports, not"),
        (lambda content: [*rows(content)[:-1], None], "a report is missing"),
        (
            lambda content: pa.array([b"12"] * (len(content) // 3), pa.binary(2)),
            "single column of 3",
        ),
        (lambda content: pa.array(rows(content), pa.binary()), "single column of 3"),
    ],
)
def test_an_impossible_report_is_a_corrupted_part(
    archive: Path, change: Callable[[bytes], object], says: str
) -> None:
    rewritten(archive, change)
    said = refused_by_recount(archive)
    assert "661/part-00003.parquet" in said
    assert says in said


def test_a_file_that_is_not_parquet_is_a_corrupted_part(archive: Path) -> None:
    (path,) = archive.glob("*/661/part-00003.parquet")
    path.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    digest(path)
    assert "not Parquet" in refused_by_recount(archive)


def test_exchanged_reports_contradict_the_tally(archive: Path) -> None:
    rewritten(archive, lambda content: rows(bytes([1 - content[0]]) + content[1:]))
    assert "differs from its manifest" in refused_by_recount(archive)


def test_a_part_missing_from_a_manifest_is_noticed(archive: Path) -> None:
    (file,) = archive.glob("*/661/manifest.json")
    manifest = json.loads(file.read_text())
    file.write_text(json.dumps(manifest | {"parts": manifest["parts"][1:]}))
    assert "differs from its manifest" in refused_by_recount(archive)


@pytest.mark.parametrize("name", ["../../../x.parquet", "part-1.parquet", "/x/part-00000.parquet"])
def test_a_manifest_names_only_files_in_its_own_folder(archive: Path, name: str) -> None:
    (file,) = archive.glob("*/661/manifest.json")
    manifest = json.loads(file.read_text())
    manifest["parts"][0]["file"] = name
    file.write_text(json.dumps(manifest))
    with pytest.raises(WrongUse, match="is not an archived round"):
        rounds_of(archive)


def test_an_unsigned_survey_is_refused(archive: Path) -> None:
    (file,) = archive.glob("*/survey.json")
    signed = json.loads(file.read_text())
    file.write_text(json.dumps(signed | {"signature": "00" * 64}))
    with pytest.raises(WrongUse, match="signature"):
        rounds_of(archive)


# Writing


def test_envelopes_that_contradict_the_tally_are_not_archived(
    tmp_path: Path, small_parts: None
) -> None:
    data, archive = tmp_path / "data", tmp_path / "archive"
    asked = fill(data)
    with open_store(data) as store, store.transaction() as transaction:
        transaction.add(asked.sequence, RoundTally(JANUARY + 1, 1, expected(asked, 1)))
    said = refused_at_last(data, archive)
    assert "its tally (260) differ" in said
    assert [round_file.manifest.round for round_file in rounds_of(archive)] == [JANUARY]
    assert not list(archive.glob("*/*.unfinished"))


def refused_at_last(data: Path, archive: Path) -> str:
    done = run("archive", "--data", data, "--to", archive, "--purge")
    assert done.returncode == 3
    return done.stderr


def expected(asked: PublishedSurvey, number: int) -> Cells:
    return np.array(expected_cells(asked.survey, [number]), np.int64)


def test_rounds_that_still_accept_reports_are_not_archived(tmp_path: Path) -> None:
    data = tmp_path / "data"
    today = datetime.now(UTC).date()
    with create_store(data) as store:
        asked = published(store, survey(round="once", opens=date(2025, 1, 1), closes=today))
        take(store, asked, 0)
    assert asked_json("archive", "--data", data, "--to", tmp_path / "archive") == {"rounds": []}
    said = refused(3, "archive", "--round", 0, "--data", data, "--to", tmp_path / "archive")
    assert "round 0 has not ended" in said
    assert not (tmp_path / "archive").exists()


def test_with_a_distrusted_clock_nothing_is_archived_or_purged(tmp_path: Path) -> None:
    data = tmp_path / "data"
    fill(data)
    with open_store(data) as store:
        store.keep_day(date(2025, 1, 2))
    assert "nothing was archived" in refused(
        3, "archive", "--data", data, "--to", tmp_path / "archive", "--purge"
    )


def test_an_archived_round_may_be_purged_early(place: Place, tmp_path: Path) -> None:
    asked = fill(place)
    archive = tmp_path / "archive"
    before = run("results", asked.name, *option(place), "--json").stdout
    assert asked_json("archive", *option(place), "--to", archive)["rounds"]
    done = asked_json("archive", "--round", JANUARY + 1, *option(place), "--to", archive, "--purge")
    assert [round_["round"] for round_ in done["rounds"]] == [JANUARY + 1]
    with open_store(place) as store:
        kept = [len(list(store.envelopes(asked.sequence, JANUARY + n))) for n in range(3)]
        assert kept == [len(SENT), 0, len(SENT)]
        assert store.unsealed_rounds() == {asked.sequence: [JANUARY, JANUARY + 2]}
    assert run("results", asked.name, *option(place), "--json").stdout == before


def test_only_reports_in_the_files_are_purged_early(tmp_path: Path, small_parts: None) -> None:
    data, archive = tmp_path / "data", tmp_path / "archive"
    asked = fill(data)
    run("archive", "--data", data, "--to", archive)
    (path,) = archive.glob("*/660/part-00003.parquet")
    flip(path)
    assert "part-00003" in refused_at_last(data, archive)
    with open_store(data) as store:
        assert len(list(store.envelopes(asked.sequence, JANUARY))) == len(SENT)


def test_an_archive_is_never_overwritten(tmp_path: Path) -> None:
    data, archive = tmp_path / "data", tmp_path / "archive"
    asked = fill(data)
    run("archive", "--data", data, "--to", archive)
    before = {path: path.read_bytes() for path in archive.rglob("*.parquet")}
    assert run("archive", "--data", data, "--to", archive).returncode == 0
    assert {path: path.read_bytes() for path in archive.rglob("*.parquet")} == before
    with open_store(data) as store, pytest.raises(Refused, match="never overwritten"):
        archive_round(store, asked, store.tallies(asked.sequence)[0], archive)


def test_archives_are_readable_by_their_owner_only(archive: Path) -> None:
    for path in archive.glob("*/*/*"):
        assert path.stat().st_mode & 0o077 == 0, path
        assert path.parent.stat().st_mode & 0o077 == 0, path


# No trace of order


def test_a_part_holds_reports_and_nothing_else(archive: Path) -> None:
    """A part has one column, no ids, times or statistics, and separates reports sent together."""
    (path, *_) = sorted(archive.glob("*/661/*.parquet"))
    file = ParquetFile(path)
    assert (file.schema_arrow.names, str(file.schema_arrow.types[0])) == (
        ["report"], "fixed_size_binary[3]",
    )  # fmt: skip
    assert file.schema_arrow.metadata is None
    assert file.metadata.metadata is None
    assert file.metadata.row_group(0).column(0).statistics is None


def numbered(count: int) -> round_files.Reports:
    return np.arange(count, dtype="<u4").view(np.uint8).reshape(count, 4)


def ascending_pairs(order: list[int]) -> int:
    """Return how many of the report pairs (0, 1), (2, 3), ... are in order of arrival."""
    place = {number: where for where, number in enumerate(order)}
    return sum(place[number] < place[number + 1] for number in range(0, len(order), 2))


def in_new_order(tmp_path: Path, count: int, parts: int) -> list[list[int]]:
    chunks = np.split(numbered(count), 10)
    return [
        rows.reshape(-1).view("<u4").tolist()
        for rows in round_files.shuffled(chunks, 4, parts, tmp_path)
    ]


def test_the_order_of_reports_is_uniformly_random(tmp_path: Path) -> None:
    """Pairs are independent, and each ascends with probability 1/2; the false-alarm bound is 3e-9.

    The test fails if a tenth of the pairs keep their order (see the twin below).
    """
    count, parts = 40_000, 4
    found = in_new_order(tmp_path, count, parts)
    order = [number for part in found for number in part]
    assert sorted(order) == list(range(count))
    assert_plausible(ascending_pairs(order), count // 2, 0.5)
    assert_plausible(len(found[0]), count, 1 / parts)
    early = sum(number < count // 2 for number in found[0])
    assert_plausible(early, len(found[0]), 0.5)
    assert not list(tmp_path.iterdir())


def test_the_test_above_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twin: without a permutation, all pairs of a part are in order of arrival."""
    monkeypatch.setattr(round_files, "permuted", lambda rows: rows)
    order = [number for part in in_new_order(tmp_path, 40_000, 4) for number in part]
    with pytest.raises(AssertionError, match="below"):
        assert_plausible(ascending_pairs(order), 20_000, 0.5)


def test_a_report_can_go_to_any_part(tmp_path: Path) -> None:
    """1,000 reports that arrived in one envelope are spread over most of the 16 parts."""
    found = in_new_order(tmp_path, 1_000, 16)
    assert sum(map(len, found)) == 1_000
    assert sum(bool(part) for part in found) > 10
    assert max(Counter(n for part in found for n in part).values()) == 1


def test_a_recount_shows_its_progress(archive: Path) -> None:
    seen: list[int] = []
    rounds = rounds_of(archive)
    recount(rounds, "local", seen.append)
    assert seen == list(range(1, 1 + sum(len(round_.manifest.parts) for round_ in rounds)))
    assert recounted(archive, "local")


def test_a_recount_of_a_folder_without_archive_is_refused(tmp_path: Path) -> None:
    assert "no archive exists at" in refused(2, "recount", tmp_path)
