"""The checks of `deniable doctor`, each with its result and the fix for a fault.

Some check the path to a server: name, connection, certificate, clock, list, keys. The others check
a state folder: permissions, damage, consent, budget, waiting reports.
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
from deniable.client.disclosure import budget, summary
from deniable.client.net.exchange import failure
from deniable.client.net.survey_list import read_list, verified
from deniable.client.net.transport import HttpTransport, Reply, Unreachable
from deniable.client.policy import Policy
from deniable.client.state.database import NEW_INSTALL, SqliteState
from deniable.client.state.ledger import Identity
from deniable.client.state.store import open_state
from deniable.shared.cli.verb import Finding
from deniable.shared.errors import DeniableError, StoreUnusable, UntrustedSurvey, quantity
from deniable.shared.privacy.epsilon import decimal_text
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
                says = f"{carrier.base} accepts it, on this machine and without TLS"
                return Finding("connection", True, says)
            certificate, version = sock.getpeercert() or {}, sock.version()
    except (OSError, ValueError) as error:
        kind, reason = failure(error, carrier.ca)
        raise Unreachable(f"{carrier.base}: {reason}", False, kind) from None
    ends = ssl.cert_time_to_seconds(str(certificate.get("notAfter")))
    days = int((ends - time.time()) / 86400)
    parts: Any = certificate.get("issuer", ())  # Any: ssl's nested tuples
    names = dict(pair for part in parts for pair in part)
    issuer = names.get("organizationName") or names.get("commonName") or "an unnamed authority"
    says = f"{version}, certificate from {escaped(issuer, 80)}, {quantity(days, 'day')} left"
    fix = "renew it: once it expires, no app can reach the server"
    well = days >= MIN_CERTIFICATE_DAYS
    return Finding("connection", well, says, "" if well else fix)


def _clock(reply: Reply) -> Finding:
    """Compare the clocks: a device whose clock is ahead reports before a round begins."""
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
    opened = list[Survey]()
    for entry in listed:
        try:
            if entry.problem:
                raise UntrustedSurvey(entry.problem)
            survey = verified(entry, policy)
            opened += [survey] if entry.state == "open" and survey.is_open(today) else []
        except DeniableError as error:
            yield Finding("refused survey", True, f"{escaped(entry.name)}: {escaped(str(error))}")
    yield from (Finding("survey", True, _needs(survey)) for survey in opened)
    if not opened:
        yield Finding("survey", True, "no survey is open today")


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
    state, policy = open_state(folder), Policy([UNKNOWN_KEY], max_epsilon=max_epsilon)
    if not state.begun:
        yield Finding("state", True, f"{state.address} holds no state yet: no one has agreed")
        return
    fix = f"restore the files, or {NEW_INSTALL}"
    if isinstance(state, SqliteState):
        yield _permissions(state)
    else:
        fix = "check the address, the state key, and that the database runs"
    try:
        shown = summary(state, Identity(person))
    except StoreUnusable as error:
        yield Finding("state", False, str(error), fix)
        return
    yield Finding("state", True, "undamaged, and so is the ledger")
    says = "given" if shown.consent else "not given, withdrawn, or overruled: nothing is sent"
    yield Finding("consent", True, says)
    if shown.others:
        others = f"{shown.others} more in this folder; choose one with --person ID"
        yield Finding("people", True, others)
    left = budget(shown.ledger, policy, datetime.now(UTC).date())
    fix = f"no survey is answered before {left.renews}: the cap is reached"
    says = (
        f"ε {left.spent} spent this quarter, ε {left.left} of {max_epsilon} left; "
        f"ε {decimal_text(shown.ledger.total)} spent in all"
    )
    yield Finding("budget", True, says, fix if left.left == "0" else "")
    waiting = sum(entry.delivery == "waiting" for entry in shown.entries)
    made = f"{len(shown.entries)} made, {waiting} of them waiting to be sent"
    yield Finding("reports", True, made)


def _permissions(state: SqliteState) -> Finding:
    """Check the files. Anyone who can read them can link this install's rounds, but no answer."""
    open_to_others = [
        path.name
        for path in (state.database, state.marker)
        if path.exists() and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    ]
    if open_to_others:
        says = f"others can read or write {', '.join(open_to_others)} in {state.folder}"
        return Finding("permissions", False, says, f"run: chmod go= {state.folder}/deniable.*")
    if not os.access(state.folder, os.W_OK):
        says, fix = f"{state.folder} cannot be written", "run the app as the folder's owner"
        return Finding("permissions", False, says, fix)
    return Finding("permissions", True, "only their owner can read the files")
