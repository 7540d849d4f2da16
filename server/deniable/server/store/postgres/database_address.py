"""Addresses of PostgreSQL databases, which are shown without passwords."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest

from deniable.shared.errors import StoreUnusable, WrongUse, installation

SCHEMES = ("postgresql", "postgres")
DEFAULTS: dict[str, object] = {
    "application_name": "deniable",
    "connect_timeout": 10,  # in seconds
    "tcp_user_timeout": 30_000,  # in ms: until unacknowledged data closes a connection
}
FORM = "postgresql://USER@HOST:PORT/DATABASE"


@dataclass(frozen=True)
class Database:
    """Address of a database. `str` leaves out the password and the settings, for display."""

    url: str = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse a malformed URL without repeating any part, which may be the password."""
        scheme, _, rest = self.url.partition("://")
        named, _, _ = rest.partition("?")
        authority, _, name = named.partition("/")
        place = authority.rpartition("@")[2]
        pairs = [host.rpartition(":") for host in place.split(",") if not host.endswith("]")]
        numbers = all(port.isdecimal() or not port for _, colon, port in pairs if colon)
        misplaced = authority.count("@") > 1 or "@" in name or not numbers
        if scheme not in SCHEMES or misplaced:
            raise WrongUse(
                f"write a store as {FORM}; in a password write %40 for @, %2F for /, %3A for : "
                "and %3F for ?, or use ~/.pgpass or PGPASSWORD instead"
            )

    def __str__(self) -> str:
        from urllib.parse import quote, urlencode

        given = {name: str(value) for name, value in self.parameters().items()}
        hosts, ports = given.get("host", ""), given.get("port", "")
        socket = hosts.startswith("/")
        user = f"{quote(given['user'])}@" if given.get("user") else ""
        folder = f"?{urlencode({'host': hosts}, safe='/')}" if socket else ""
        shown = _places("" if socket else hosts, ports)
        return f"postgresql://{user}{shown}/{quote(given.get('dbname', ''))}{folder}"

    def parameters(self) -> dict[str, object]:
        """Return libpq's parameters for the address, with our own timeouts as defaults."""
        try:
            from psycopg.conninfo import conninfo_to_dict
            from psycopg.errors import ProgrammingError
        except ModuleNotFoundError:
            raise StoreUnusable(
                f"PostgreSQL needs psycopg, which is not installed; {installation('postgres')}"
            ) from None
        try:
            return DEFAULTS | conninfo_to_dict(self.url)
        except ProgrammingError:
            raise WrongUse(
                f"libpq cannot read the address of the store; write it as {FORM}?NAME=VALUE"
            ) from None


def _places(hosts: str, ports: str) -> str:
    """Format hosts and ports as in a URL; either may be a comma-separated list."""
    named = [f"[{host}]" if ":" in host else host for host in hosts.split(",")]
    pairs = zip_longest(named, ports.split(","), fillvalue="")
    return ",".join(f"{host}:{port}" if port else host for host, port in pairs)
