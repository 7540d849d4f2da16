"""What `deniable doctor` has found, whichever part looked."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Finding:
    check: str
    well: bool
    says: str
    cure: str = ""


def tell(findings: Iterable[Finding], *, as_json: bool) -> int:
    """The exit code: 1 where something is wrong."""
    found = list(findings)
    well = all(each.well for each in found)
    if as_json:
        print(json.dumps({"well": well, "checks": [asdict(each) for each in found]}))
        return 0 if well else 1
    for each in found:
        print(f"{'ok   ' if each.well else 'FAULT'}  {each.check}: {each.says}")
        if each.cure:
            print(f"       {each.cure}")
    return 0 if well else 1
