"""Tokens, their roles, and the sessions that they start; without a web framework.

- operator: publishes and closes surveys, and may do everything that an analyst may
- analyst: reads results and counters
- app: sends many reports in one envelope, and nothing else; it may stand for a class of installs

An invitation is a code for one report of one survey. Devices send it in a separate header, which
pages of other origins may use; they may not send tokens. The store keeps invitations in a table of
their own, which must not show when an invitation was used.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import re
import secrets
import threading
from datetime import datetime

from deniable.server.store import COMMAND, SERVER, Store, Token
from deniable.server.surveys.clock import Clock
from deniable.shared.errors import StoreUnusable, WrongUse

GRANTS = {
    "operator": frozenset({"operator", "analyst"}),
    "analyst": frozenset({"analyst"}),
    "app": frozenset({"app"}),
}
ROLES = tuple(GRANTS)
MAX_TOKEN_DAYS = 3_660
SESSION_SECONDS = 12 * 3_600.0
MAX_SESSIONS = 10_000
MAX_NAME_CHARACTERS = 60
MAX_CLASS = 100  # characters of a label's name and value
MAX_HOURLY_REPORTS = 10**9
_TOKEN = re.compile(r"[A-Za-z0-9_-]{20,200}", re.ASCII)

INVITATION_BYTES = 17
_INVITATION = re.compile(r"[a-z2-7]{26}", re.ASCII | re.IGNORECASE)

log = logging.getLogger("deniable.server")


def new_token() -> str:
    """Return 256 random bits in hex, which can be pasted anywhere, even after `--token`."""
    return secrets.token_hex(32)


def new_invitation() -> str:
    """Return 130 random bits as 26 letters and digits, which people can read out."""
    return base64.b32encode(secrets.token_bytes(INVITATION_BYTES)).decode().lower()[:26]


def invitation_hash(code: str) -> bytes:
    """Return a plain hash, which suffices because codes are 130 random bits."""
    return hashlib.sha256(code.encode()).digest()


def invitation_in(header: str | None) -> bytes:
    """Return the hash of the invitation code in a header, or nothing if it has none."""
    code = header or ""
    return invitation_hash(code.lower()) if _INVITATION.fullmatch(code) else b""


def check_role(role: str) -> str:
    if role not in GRANTS:
        raise WrongUse(f"a role must be one of {', '.join(ROLES)}; got {role!r}")
    return role


def check_name(name: str) -> str:
    name = name.strip()
    if not name.isprintable() or len(name) > MAX_NAME_CHARACTERS or name in (COMMAND, SERVER):
        raise WrongUse(
            f"a token's name has at most {MAX_NAME_CHARACTERS} printable characters, and cannot be "
            f"{COMMAND!r} or {SERVER!r}, which the audit log uses for commands and for the server"
        )
    return name


def check_class(role: str, label: str, limit: int) -> None:
    """Refuse a label value or a limit that no app token can have."""
    name, _, value = label.partition("=")
    if (label or limit) and role != "app":
        raise WrongUse("only a token with the role app can have --label or --limit")
    if label and not (name and value and label.isprintable() and len(label) <= MAX_CLASS):
        raise WrongUse(f"--label must be like channel=ci, got {label!r}")
    if not 0 <= limit <= MAX_HOURLY_REPORTS:
        raise WrongUse(f"--limit must be 1 to {MAX_HOURLY_REPORTS:,} reports an hour, got {limit}")


def grants(role: str | None, wanted: str) -> bool:
    return wanted in GRANTS.get(role or "", ())


def used_token(text: str, store: Store, now: datetime) -> Token | None:
    """Return the token, or None if it is unknown or has expired, and note the day of its use.

    Only the first use on a day writes. A store that cannot write does not keep anyone out.
    """
    token = store.valid_token(text, now) if _TOKEN.fullmatch(text) else None
    if token is not None and token.used != now.date():
        try:
            store.note_use(token.id, now.date())
        except StoreUnusable as error:
            log.warning("%s; the last use of a token was not recorded", error)
    return token


def authorized(authorization: str, store: Store, now: datetime) -> Token | None:
    scheme, _, text = authorization.partition(" ")
    return used_token(text.strip(), store, now) if scheme.lower() == "bearer" else None


class Sessions:
    """In-memory sessions of the pages, identified by random cookies; thread-safe.

    The browser does not store the token itself: a copied cookie becomes useless at sign-out, after
    a restart, or when the token is revoked.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._tokens: dict[str, tuple[str, float]] = {}  # oldest first

    def begin(self, token: str) -> str:
        """Return the cookie of a new session with this token."""
        cookie = secrets.token_urlsafe(32)
        with self._lock:
            if len(self._tokens) >= MAX_SESSIONS:
                del self._tokens[next(iter(self._tokens))]
            self._tokens[cookie] = token, self._clock.seconds() + SESSION_SECONDS
        return cookie

    def token(self, cookie: str) -> str:
        token, end = self._tokens.get(cookie, ("", 0.0))
        return token if self._clock.seconds() < end else ""

    def end(self, cookie: str) -> None:
        with self._lock:
            self._tokens.pop(cookie, None)
