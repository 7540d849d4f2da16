"""Workers that die while they process a part of an archive.

The module imports little, because every new worker repeats the imports.
"""

import os
import signal

from deniable.server.archive import Fold, Part, fold_part


def die_once(part: Part) -> Fold:
    """Kill the calling process at one part, but only the first time."""
    mark = part.path.with_name("died")
    if part.name.endswith("661/part-00004.parquet") and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return fold_part(part)


def die_always(part: Part) -> Fold:
    if part.name.endswith("part-00004.parquet"):
        os.kill(os.getpid(), signal.SIGKILL)
    return fold_part(part)
