"""The server's list of surveys: fetched in a thread, read, and verified entry by entry.

Only one fetch runs at a time. Whatever the network does, a caller waits two seconds at most. The
fetch itself may take longer, and its list is kept for the next call. A fetch that outlives its
deadline is abandoned: its list is not used, and the next fetch starts from the beginning.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING

from deniable.client.diagnostics import escaped, log_failure
from deniable.client.fork_safety import ForkAware
from deniable.client.net.transport import Reply, Transport, Unreachable
from deniable.client.policy import Policy
from deniable.client.state.survey_cache import ListedSurvey
from deniable.shared.errors import DeniableError, StoreUnusable, UntrustedSurvey
from deniable.shared.survey.keys import verify

if TYPE_CHECKING:
    from deniable.shared.survey.document import Survey

MAX_LISTED = 1_000
MAX_STRINGS, MAX_BYTES_OUTSIDE_STRINGS = 100_000, 2**20
FETCH_SECONDS = 2.0  # that a caller waits
LIST_TIMES = 2.0  # of the timeout of other exchanges: a list is longer than a reply
MAX_PAUSE_SECONDS = 300.0
ID = re.compile(r"[0-9a-f]{64}")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # an unclosed string goes to the end


# Fetching


class _Fetch:
    """A running fetch, which several threads may wait for."""

    def __init__(self, deadline: float) -> None:
        self.deadline, self.done, self.succeeded = deadline, threading.Event(), False


class ListFetcher(ForkAware):
    """Fetch the list when a caller needs it. `keep` reads a reply and stores its list, or raises
    Unreachable if the reply contains none."""

    def __init__(
        self,
        transport: Transport,
        keep: Callable[[Reply], None],
        monotonic: Callable[[], float],
        timeout: float,
    ) -> None:
        self.list_seconds = LIST_TIMES * timeout  # for the whole list, on a slow line
        self._transport, self._keep, self._monotonic = transport, keep, monotonic
        super().__init__()

    def remake(self) -> None:
        self._lock = threading.Lock()
        self._fetch: _Fetch | None = None
        self.successes = self._in_vain = 0  # fetches of this process
        self.failure = ""  # the reason why the last fetch brought no list
        self._pause_until = 0.0

    def fetch(self, seen: int, wait: float | None = None) -> bool:
        """Fetch a list unless there were more successes than the caller has seen. Return whether a
        newer list is on disk."""
        self.same_process()
        _load_libraries()
        with self._lock:
            if self.successes > seen:
                return True  # by another thread, in the meantime
            if self._monotonic() < self._pause_until:
                return False
            fetch = self._fetch
            if fetch is None or fetch.done.is_set() or self._monotonic() >= fetch.deadline:
                fetch = self._fetch = self._start()
        if not fetch.done.wait(FETCH_SECONDS if wait is None else wait):
            self.failure = "no reply yet; the fetch continues in the background"
        return fetch.succeeded

    def pace(self, helped: bool) -> None:
        """Slow down callers that fetch in vain: no pause at first, then 2, 4, 8 ... seconds."""
        self.same_process()
        with self._lock:
            self._in_vain = 0 if helped else self._in_vain + 1
            doublings = min(self._in_vain - 1, 20)
            pause = min(MAX_PAUSE_SECONDS, 2.0**doublings) if self._in_vain > 1 else 0
            if self._monotonic() >= self._pause_until:
                self._pause_until = self._monotonic() + pause

    def _start(self) -> _Fetch:
        fetch = _Fetch(self._monotonic() + self.list_seconds)
        try:
            threading.Thread(
                target=self._run, args=(fetch,), name="deniable-surveys", daemon=True
            ).start()
        except RuntimeError:  # the interpreter is ending
            fetch.done.set()
        return fetch

    def _run(self, fetch: _Fetch) -> None:
        try:
            reply = self._transport.request("GET", "/v1/surveys", None, None, self.list_seconds)
            with self._lock:
                abandoned = self._fetch is not fetch
            if abandoned:
                return
            self._keep(reply)
            with self._lock:
                self.successes += 1
            fetch.succeeded = True
        except Unreachable as error:
            self.failure = escaped(str(error))
            log_failure(error.kind, f"the list of surveys could not be fetched: {self.failure}")
        except StoreUnusable:
            self.failure = "the state on disk cannot be used"
            log_failure("state", self.failure)
        finally:
            fetch.done.set()


def _load_libraries() -> None:
    """Load the libraries before the two seconds begin, which are for the network alone."""
    import certifi  # noqa: F401
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: F401

    from deniable.client.net import exchange  # noqa: F401


# Reading and verifying


def verified(listed: ListedSurvey, policy: Policy) -> Survey:
    """Return the survey if the app may answer it; raise an error with the reason otherwise."""
    from deniable.shared.survey.document import parse_document, survey_id

    document = listed.document or b""
    if survey_id(document) != listed.id:
        raise UntrustedSurvey("the survey's id is not the hash of its document")
    verify(document, listed.signature, listed.key, policy.keys)
    if not policy.allows(listed.id):
        raise UntrustedSurvey("the app's policy allows only other surveys")
    survey = parse_document(document)
    for question in survey.questions:
        if not question.mechanism.is_private():
            raise UntrustedSurvey(
                f"question {question.name!r} has probabilities that its ε does not cover"
            )
    return survey


def read_shipped(entry: bytes | str, policy: Policy) -> tuple[str, Survey]:
    """Read a survey that ships with the app, in the format of the server's list; with its id."""
    try:
        listed = _read(json.loads(entry), 0, policy)
    except (ValueError, RecursionError):
        listed = None
    if listed is None:
        raise UntrustedSurvey(
            "that is not a signed survey; use the output of `deniable survey show NAME --json`"
        )
    if listed.problem is not None:
        raise UntrustedSurvey(listed.problem)
    return listed.id, verified(listed, policy)


def read_list(reply: Reply, policy: Policy) -> list[ListedSurvey]:
    """Read every entry and check each separately, so that a bad entry hides no other."""
    if reply.status != 200:
        raise Unreachable(f"the server answered with status {reply.status}", True, "status")
    if not _is_small(reply.body):
        raise Unreachable("the server's list of surveys is too large", True, "too-large")
    try:
        entries = json.loads(reply.body)["surveys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        entries = None
    if not isinstance(entries, list):
        raise Unreachable("the reply is not a list of surveys: is it another page?", True, "list")
    read = (_read(entry, position, policy) for position, entry in enumerate(entries[:MAX_LISTED]))
    return [listed for listed in read if listed is not None]


def _is_small(body: bytes) -> bool:
    """Whether the reply takes little more memory than its bytes: documents are long strings, but
    brackets take twenty times their size."""
    outside = len(body)
    for number, string in enumerate(_STRING.finditer(body)):
        outside -= len(string[0])
        if number >= MAX_STRINGS:
            return False
    return outside <= MAX_BYTES_OUTSIDE_STRINGS


def _read(entry: object, position: int, policy: Policy) -> ListedSurvey | None:
    names = ("id", "document", "signature", "key", "state")
    if not isinstance(entry, Mapping) or not all(isinstance(entry.get(n), str) for n in names):
        return None
    id_, text, signature, key, state = (str(entry[name]) for name in names)
    if not ID.fullmatch(id_) or state not in ("open", "closed"):
        return None
    document = text.encode("utf-8", "replace")
    claimed = ListedSurvey(id_, position, "", state, document, signature, key)
    try:
        survey = verified(claimed, policy)
    except DeniableError as error:
        return ListedSurvey(
            id_, position, _claimed_name(text), state, None, "", "", escaped(str(error))
        )
    closes = datetime.combine(survey.closes, time(), UTC) + timedelta(days=1)
    name = survey.name
    return ListedSurvey(id_, position, name, state, document, signature, key, None, closes)


def _claimed_name(text: str) -> str:
    """Return the name that a refused survey gives itself, to show with the reason."""
    try:
        name = str(json.loads(text)["survey"]["name"])[:64]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return name.encode("utf-8", "replace").decode()
