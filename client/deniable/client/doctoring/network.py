"""The way to a server: name, connection, certificate, clock, list, keys."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from deniable.client.escaping import escaped
from deniable.client.net.failures import failure
from deniable.client.net.listing import read_list, verified
from deniable.client.net.transport import HttpTransport, Reply, Unreachable
from deniable.client.policy import Policy
from deniable.shared.cli.verb import Finding
from deniable.shared.errors import DeniableError
from deniable.shared.survey.document import Survey

MOST_DRIFT = timedelta(minutes=5)
NOBODY = "00" * 32  # a key with which nobody signs
FEW_DAYS = 14  # of a certificate that are left
CURES = {
    "dns": "check the name; where only a proxy knows it, pass --proxy",
    "refused": "check host and port, and that the server runs",
    "timeout": "check firewall and proxy; a longer --timeout for a slow line",
    "certificate": "check this device's clock and the certificate; for a company's authority: --ca",
    "tls": "is it an https server, and not behind a proxy that ends TLS?",
    "proxy": "write name and password into --proxy, or ask who runs it",
    "status": "ask who runs the server; is the path of the address right?",
    "list": "is the address that of the deniable server, and not of a page before it?",
}


def look_at_server(server: str, keys: Sequence[str], **network: Any) -> Iterator[Finding]:
    """What works is not looked at again: the first that fails ends it."""
    timeout = network.pop("timeout")
    carrier = HttpTransport(server, **network)
    try:
        yield _connection(carrier, timeout)
        reply = carrier.request("GET", "/v1/surveys", None, None, timeout)
        yield _clock(reply)
        yield from _surveys(reply, keys)
    except Unreachable as error:
        cure = CURES.get(error.kind, "check the network")
        yield Finding("server", False, escaped(str(error)), cure)


def _connection(carrier: HttpTransport, timeout: float) -> Finding:
    try:
        with closing(carrier.connect(time.monotonic() + timeout)) as sock:
            if not isinstance(sock, ssl.SSLSocket):
                return Finding("connection", True, f"{carrier.base} takes it, without TLS, as here")
            certificate, version = sock.getpeercert() or {}, sock.version()
    except (OSError, ValueError) as error:
        kind, reason = failure(error, carrier.ca)
        raise Unreachable(f"{carrier.base}: {reason}", False, kind) from None
    ends = ssl.cert_time_to_seconds(str(certificate.get("notAfter")))
    days = int((ends - time.time()) / 86400)
    says = f"{version}, certificate from {_issuer(certificate)}, {days} days left"
    cure = "renew it: no app reaches the server after that" if days < FEW_DAYS else ""
    return Finding("connection", days >= FEW_DAYS, says, cure)


def _issuer(certificate: Any) -> str:  # Any: ssl's nested tuples
    names = dict(pair for part in certificate.get("issuer", ()) for pair in part)
    return escaped(names.get("organizationName") or names.get("commonName") or "nobody named", 80)


def _clock(reply: Reply) -> Finding:
    """Rounds begin and end by the server's clock: a device that is ahead is early."""
    try:
        there = parsedate_to_datetime(reply.date)
    except (TypeError, ValueError):
        return Finding("clock", True, "not compared: the server sends no date")
    apart = datetime.now(UTC) - there.astimezone(UTC)
    seconds = round(apart.total_seconds())
    says = f"{abs(seconds)} s {'ahead of' if seconds > 0 else 'behind'} the server's"
    well = abs(apart) <= MOST_DRIFT
    return Finding("clock", well, says, "" if well else "set this device's clock, by NTP")


def _surveys(reply: Reply, keys: Sequence[str]) -> Iterator[Finding]:
    """Without a key, the keys that the list itself names are taken, to read what they signed."""
    policy = Policy(keys or _named(reply) or [NOBODY])
    listed = read_list(reply, policy)
    sound = [each for each in listed if each.document is not None]
    says = f"surveys listed: {len(listed)}, and {len(sound)} signed by " + (
        "the key that you trust" if keys else "a key that the server names"
    )
    cure = "pass the key that `deniable keys show FILE` prints" if keys else ""
    well = bool(sound) or not (keys and listed)
    yield Finding("list", well, says, "" if well else cure)
    today = datetime.now(UTC).date()
    for each in listed:
        if each.problem:
            yield Finding("refused survey", True, f"{escaped(each.name)}: {each.problem}")
    surveys = [(each, verified(each, policy)) for each in sound]
    opened = [s for each, s in surveys if each.state == "open" and s.is_open(today)]
    yield from (Finding("survey", True, _needs(survey)) for survey in opened)
    if not opened:
        yield Finding("survey", True, "none is open today")


def _named(reply: Reply) -> Sequence[str]:
    """The keys that the list itself names; none if that cannot be read."""
    try:
        named = {str(each["key"]) for each in json.loads(reply.body)["surveys"]}
        return tuple(Policy(sorted(named)).keys)
    except (DeniableError, ValueError, LookupError, TypeError, RecursionError):
        return ()


def _needs(survey: Survey) -> str:
    return (
        f"{survey.name} is open until {survey.closes}: it needs a policy of ε "
        f"{survey.round_epsilon} a round and ε {survey.lifetime_epsilon} in all"
    )
