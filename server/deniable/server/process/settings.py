"""Settings of a server, besides the folder and the addresses."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

TOKEN = "DENIABLE_TOKEN"  # noqa: S105 # the variable with the token that this machine shows others


@dataclass(frozen=True)
class Settings:
    """Settings of a server, passed to each of its processes."""

    limit: int | None = None  # hourly reports of a survey from one network neighbourhood
    proxies: tuple[str, ...] = ()  # addresses of proxies trusted to name senders and hosts
    sealing: tuple[str, ...] = ()  # files with the keys that open sealed reports
    base_path: str = ""  # path prefix of the pages, which a proxy strips
    device_url: str = ""  # URL for devices; default: the listening address
    public: bool = False  # whether each survey has a public page for respondents
    known: Path | None = None  # values from other sources, shown next to the estimates
    log_json: bool = False
    trust_clock: bool = False  # today's date is right, even after a long pause


def is_loopback(host: str) -> bool:
    """Return whether a host is reachable only from this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
