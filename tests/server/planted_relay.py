"""`deniable relay` with a bug planted in it: what the test of its kills must find.

python planted_relay.py acknowledges-first relay ...   writes a moment after it has acknowledged
python planted_relay.py none relay ...                 has none
"""

import sys
import threading
from collections.abc import Iterable

from deniable.server.relay.holding import Holding
from deniable.shared.cli.command import main
from deniable.shared.sealing import SealedEnvelope

keep = Holding.keep


def acknowledges_first(self: Holding, envelopes: Iterable[SealedEnvelope]) -> None:
    threading.Timer(0.3, keep, (self, list(envelopes))).start()


if __name__ == "__main__":
    if sys.argv[1] == "acknowledges-first":
        Holding.keep = acknowledges_first  # type: ignore[method-assign]  # that is the bug
    raise SystemExit(main(sys.argv[2:]))
