"""Workers that die over a part of an archive; few imports, since each new one does them too."""

import os
import signal

from deniable.server.archive import Fold, Part, fold_part


def die_once(part: Part) -> Fold:
    """Kills its own process at one part, the first time only."""
    mark = part.path.with_name("died")
    if part.name.endswith("661/part-00004.parquet") and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return fold_part(part)


def die_always(part: Part) -> Fold:
    if part.name.endswith("part-00004.parquet"):
        os.kill(os.getpid(), signal.SIGKILL)
    return fold_part(part)
