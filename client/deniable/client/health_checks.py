"""The checks of `deniable doctor`: each states what it found, and how to fix what is wrong.

One half checks the way to a server: name, connection, certificate, clock, list, keys. The other
half checks a state folder: permissions, damage, consent, budget, waiting reports.
"""

from __future__ import annotations

import json
import os
import ssl
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from deniable.client.diagnostics import escaped
from deniable.client.disclosure import Summary, budget, summary
from deniable.client.net.exchange import failure
from deniable.client.net.survey_list import read_list, verified
from deniable.client.net.transport import HttpTransport, Reply, Unreachable
from deniable.client.policy import Policy
from deniable.client.state.database import NEW_INSTALL, State
from deniable.client.state.ledger import Identity
from deniable.shared.cli.verb import Finding
from deniable.shared.errors import DeniableError, StoreUnusable
from deniable.shared.survey.document import Survey

MAX_CLOCK_DRIFT = timedelta(minutes=5)
MIN_CERTIFICATE_DAYS = 14
UNKNOWN_KEY = "00" * 32  # a key that signs nothing
FIXES = {
    "dns": "check the name; if only a proxy can resolve it, pass --proxy",
    "refused": "check host and port, and that the server runs",
    "timeout": "check firewall and proxy; pass a longer --timeout for a slow line",
    "certificate": "check this device's clock; pass a company's authority by --ca",
    "tls": "check that it is an https server, without a proxy that ends TLS",
    "proxy": "write name and password into --proxy, or ask its operator",
    "status": "ask the server's operator, and check the path of the address",
    "list": "check that the address is that of the deniable server, not of another page",
}


def check_server(server: str, keys: Sequence[str], **network: Any) -> Iterator[Finding]:
    """Check one thing after another; the first failure ends the checks."""
    timeout = network.pop("timeout")
    carrier = HttpTransport(server, **network)
    try:
        yield _connection(carrier, timeout)
        reply = carrier.request("GET", "/v1/surveys", None, None, timeout)
        yield _clock(reply)
        yield from _surveys(reply, keys)
    except Unreachable as error:
        fix = FIXES.get(error.kind, "check the network")
        yield Finding("server", False, escaped(str(error)), fix)


def _connection(carrier: HttpTransport, timeout: float) -> Finding:
    try:
        with closing(carrier.connect(time.monotonic() + timeout)) as sock:
            if not isinstance(sock, ssl.SSLSocket):
                return Finding(
                    "connection", True, f"{carrier.base} accepts it, without TLS, on this machine"
                )
            certificate, version = sock.getpeercert() or {}, sock.version()
    except (OSError, ValueError) as error:
        kind, reason = failure(error, carrier.ca)
        raise Unreachable(f"{carrier.base}: {reason}", False, kind) from None
    ends = ssl.cert_time_to_seconds(str(certificate.get("notAfter")))
    days = int((ends - time.time()) / 86400)
    says = f"{version}, certificate from {_issuer(certificate)}, {days} days left"
    fix = "renew it: after that, no app can reach the server" if days < MIN_CERTIFICATE_DAYS else ""
    return Finding("connection", days >= MIN_CERTIFICATE_DAYS, says, fix)


def _issuer(certificate: Any) -> str:  # Any: ssl's nested tuples
    names = dict(pair for part in certificate.get("issuer", ()) for pair in part)
    return escaped(
        names.get("organizationName") or names.get("commonName") or "an unnamed authority", 80
    )


def _clock(reply: Reply) -> Finding:
    """Compare the clocks: a device ahead of the server reports before a round begins."""
    try:
        server_time = parsedate_to_datetime(reply.date)
    except (TypeError, ValueError):
        return Finding("clock", True, "not compared: the server sends no date")
    drift = datetime.now(UTC) - server_time.astimezone(UTC)
    seconds = round(drift.total_seconds())
    says = f"{abs(seconds)} s {'ahead of' if seconds > 0 else 'behind'} the server's"
    well = abs(drift) <= MAX_CLOCK_DRIFT
    return Finding("clock", well, says, "" if well else "set this device's clock, by NTP")


def _surveys(reply: Reply, keys: Sequence[str]) -> Iterator[Finding]:
    """Check the list. Without a key, trust the keys that the list names."""
    policy = Policy(keys or _named_keys(reply) or [UNKNOWN_KEY])
    listed = read_list(reply, policy)
    sound = [entry for entry in listed if entry.document is not None]
    says = f"surveys listed: {len(listed)}, and {len(sound)} signed by " + (
        "the key that you trust" if keys else "a key that the server names"
    )
    fix = "pass the key that `deniable keys show FILE` prints" if keys else ""
    well = bool(sound) or not (keys and listed)
    yield Finding("list", well, says, "" if well else fix)
    today = datetime.now(UTC).date()
    for entry in listed:
        if entry.problem:
            yield Finding("refused survey", True, f"{escaped(entry.name)}: {entry.problem}")
    surveys = [(entry, verified(entry, policy)) for entry in sound]
    opened = [
        survey for entry, survey in surveys if entry.state == "open" and survey.is_open(today)
    ]
    yield from (Finding("survey", True, _needs(survey)) for survey in opened)
    if not opened:
        yield Finding("survey", True, "none is open today")


def _named_keys(reply: Reply) -> Sequence[str]:
    """Return the keys that the list names; none if it cannot be read."""
    try:
        named = {str(entry["key"]) for entry in json.loads(reply.body)["surveys"]}
        return tuple(Policy(sorted(named)).keys)
    except (DeniableError, ValueError, LookupError, TypeError, RecursionError):
        return ()


def _needs(survey: Survey) -> str:
    return (
        f"{survey.name} is open until {survey.closes}: it needs a policy of ε "
        f"{survey.round_epsilon} a round and ε {survey.lifetime_epsilon} in all"
    )


# A state folder


def check_folder(folder: str, max_epsilon: str, person: str | None = None) -> Iterator[Finding]:
    """Check a folder, and the consent, budget and reports of one person in it."""
    state, policy = State(folder), Policy([UNKNOWN_KEY], max_epsilon=max_epsilon)
    if not state.begun:
        yield Finding("state", True, f"{state.folder} holds no state yet: no one has agreed")
        return
    yield _permissions(state)
    try:
        shown = summary(state, Identity(person))
    except StoreUnusable as error:
        yield Finding("state", False, str(error), f"restore the files, or {NEW_INSTALL}")
        return
    yield Finding("state", True, "undamaged, and so is the ledger")
    yield _consent(shown)
    if shown.others:
        yield Finding(
            "people", True, f"{shown.others} more in this folder; name one with --person ID"
        )
    left = budget(shown.ledger, policy)
    fix = "no further survey is answered, because the cap is reached" if left.left == "0" else ""
    yield Finding("budget", True, f"ε {left.spent} spent, ε {left.left} of {max_epsilon} left", fix)
    waiting = sum(entry.delivery == "waiting" for entry in shown.entries)
    yield Finding(
        "reports", True, f"{len(shown.entries)} made, {waiting} of them waiting to be sent"
    )


def _permissions(state: State) -> Finding:
    """Check the files: a reader could link the rounds of this install, but learns no answer."""
    open_to_others = [
        path.name
        for path in (state.database, state.marker)
        if path.exists() and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    ]
    if open_to_others:
        return Finding(
            "permissions",
            False,
            f"others can read or write {', '.join(open_to_others)} in {state.folder}",
            f"run: chmod go= {state.folder}/deniable.*",
        )
    if not os.access(state.folder, os.W_OK):
        return Finding(
            "permissions", False, f"{state.folder} cannot be written", "run it as its owner"
        )
    return Finding("permissions", True, "only their owner can read the files")


def _consent(shown: Summary) -> Finding:
    says = "given" if shown.consent else "not given, withdrawn, or overruled: nothing is sent"
    return Finding("consent", True, says)
