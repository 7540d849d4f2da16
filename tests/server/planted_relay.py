"""`deniable relay` with a planted bug, which the kill test must find.

The first argument names the bug:

    python planted_relay.py acknowledges-first relay ...   acknowledges, and writes a moment later
    python planted_relay.py forwarder-dies relay ...       loses its forwarder before a batch
    python planted_relay.py none relay ...                 has no bug
"""

import multiprocessing
import sys
import threading
from collections.abc import Iterable

from deniable.server.relay.forwarder import Forwarder
from deniable.server.relay.held_batches import Arrival, Holding
from deniable.shared.cli.command import main

keep = Holding.keep
turn = Forwarder.turn
died = multiprocessing.Event()  # inherited by the next worker


def acknowledges_first(self: Holding, arrivals: Iterable[Arrival]) -> list[Exception | None]:
    later = list(arrivals)
    threading.Timer(0.3, keep, (self, later)).start()
    return [None] * len(later)


def dies_once(self: Forwarder) -> bool:
    if self._holding.gathered() and not died.is_set():
        died.set()
        raise ArithmeticError("planted")
    return turn(self)


if __name__ == "__main__":
    if sys.argv[1] == "acknowledges-first":
        Holding.keep = acknowledges_first  # type: ignore[method-assign]  # that is the bug
    if sys.argv[1] == "forwarder-dies":
        Forwarder.turn = dies_once  # type: ignore[method-assign]  # that is the bug
    raise SystemExit(main(sys.argv[2:]))
