"""Addresses of PostgreSQL databases, which are shown without passwords."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest

from deniable.shared.errors import StoreUnusable, WrongUse

SCHEMES = ("postgresql", "postgres")
CONNECT_SECONDS = 10
SILENCE_MILLISECONDS = 30_000  # until a connection whose other end is gone counts as cut
FORM = "postgresql://USER@HOST:PORT/DATABASE"


@dataclass(frozen=True)
class Database:
    """`str` gives an address that may be shown: without password and settings."""

    url: str = field(repr=False)

    def __post_init__(self) -> None:
        """Nothing of what is wrong is repeated: it may be a part of the password."""
        scheme, _, rest = self.url.partition("://")
        named, _, _ = rest.partition("?")
        authority, _, name = named.partition("/")
        place = authority.rpartition("@")[2]
        ports = [each.rpartition(":")[2] for each in place.split(",") if not each.endswith("]")]
        numbers = all(not port or port.isdecimal() for port in ports) if ":" in place else True
        misplaced = authority.count("@") > 1 or "@" in name or not numbers
        if scheme not in SCHEMES or misplaced:
            raise WrongUse(
                f"a store is written {FORM}; in a password write %40 for @, %2F for /, %3A for : "
                "and %3F for ?, or leave it to ~/.pgpass or PGPASSWORD"
            )

    def __str__(self) -> str:
        from urllib.parse import quote, urlencode

        said = {name: str(value) for name, value in self.parameters().items()}
        hosts, ports = said.get("host", ""), said.get("port", "")
        socket = hosts.startswith("/")
        user = f"{quote(said['user'])}@" if said.get("user") else ""
        folder = f"?{urlencode({'host': hosts}, safe='/')}" if socket else ""
        shown = _places("" if socket else hosts, ports)
        return f"postgresql://{user}{shown}/{quote(said.get('dbname', ''))}{folder}"

    def parameters(self) -> dict[str, object]:
        """Return libpq's parameters of the address, with our own limits where it has none."""
        try:
            from psycopg.conninfo import conninfo_to_dict
            from psycopg.errors import ProgrammingError
        except ModuleNotFoundError:
            raise StoreUnusable(
                "PostgreSQL needs psycopg, which is not installed; "
                "run: pip install 'deniable[postgres]'"
            ) from None
        try:
            said = conninfo_to_dict(self.url)
        except ProgrammingError:
            raise WrongUse(
                f"libpq cannot read that store's address; it is written {FORM}?NAME=VALUE"
            ) from None
        ours = {
            "application_name": "deniable",
            "connect_timeout": CONNECT_SECONDS,
            "tcp_user_timeout": SILENCE_MILLISECONDS,
        }
        return {**ours, **said}


def _places(hosts: str, ports: str) -> str:
    """Return hosts and ports as an address has them: either may be a list."""
    named = [f"[{host}]" if ":" in host else host for host in hosts.split(",")]
    pairs = zip_longest(named, ports.split(","), fillvalue="")
    return ",".join(f"{host}:{port}" if port else host for host, port in pairs)
