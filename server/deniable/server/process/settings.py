"""Settings of a server that its operator chooses, besides the folder and the addresses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

TOKEN = "DENIABLE_TOKEN"  # noqa: S105 # the variable with the token that this machine shows others


@dataclass(frozen=True)
class Settings:
    """Settings of a server, passed to each of its processes."""

    limit: int | None = None  # reports of one survey from one neighbourhood in an hour
    proxies: tuple[str, ...] = ()  # addresses trusted to name senders and hosts
    sealing: tuple[str, ...] = ()  # files of the keys that open sealed reports
    base_path: str = ""  # path prefix of the pages behind a proxy, which strips it
    device_url: str = ""  # where devices reach the server; else the address that it listens at
    public: bool = False  # whether each survey has a page for the people who are asked
    known: Path | None = None  # values from elsewhere, drawn next to the estimates
    log_json: bool = False
    trust_clock: bool = False  # today's date is right, also after a long pause
