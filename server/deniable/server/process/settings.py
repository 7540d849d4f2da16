"""What the operator may choose beside folder and port."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

TOKEN = "DENIABLE_TOKEN"  # noqa: S105 # the name of a variable: what this machine shows to another


@dataclass(frozen=True)
class Settings:
    """Goes to the worker, however it is started."""

    limit: int | None = None  # reports of one survey from one neighbourhood in an hour
    proxies: tuple[str, ...] = ()  # the addresses whose words about senders and hosts are believed
    sealing: tuple[str, ...] = ()  # files of the keys that open sealed reports
    base_path: str = ""  # where a proxy has the pages; it takes this off before it passes on
    public: bool = False  # whether each survey has a page for the people who are asked
    known: Path | None = None  # values from elsewhere, drawn beside the estimates
    log_json: bool = False
    trust_clock: bool = False  # today's date is right, also after a long pause
