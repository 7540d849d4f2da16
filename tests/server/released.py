"""Release of everything that a store has counted, for tests that are not about steps."""

from pathlib import Path
from typing import Any

from deniable.server.store import RoundTally, Store, open_store
from deniable.server.store.records import TOTAL, Released
from tests.command import asked_json


def release_all(store: Store) -> None:
    """Show readers every counted report, as if the steps of all open rounds were complete."""
    for sequence, rounds in store.unsealed_rounds().items():
        for number in rounds:
            store.release(sequence, number, _everything)


def all_results(survey: str, data: Path | str) -> dict[str, Any]:
    """Return the results of a survey in a folder, with every report that has been counted."""
    with open_store(Path(data)) as store:
        release_all(store)
    return asked_json("results", survey, "--data", data)


def _everything(counted: RoundTally, _: Released) -> Released:
    return {TOTAL: counted}
