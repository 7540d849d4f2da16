"""Small client for bits, written from PROTOCOL alone: it imports nothing of deniable.

It shows that PROTOCOL is complete, and is a start for a client in another language. Its methods
named after operations speak the line protocol of README.md.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import math
import os
import re
import secrets
import struct
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

Table = dict[str, Any]  # JSON
LIST_SECONDS, DAY_SECONDS, TIMEOUT_SECONDS = 3_600, 86_400, 30
MAX_TRIES, MAX_LIST_BYTES = 10, 32 * 2**20
LOOPBACK = ("127.0.0.1", "::1", "localhost")
FINAL = (400, 405, 406, 410, 411, 413, 414, 415, 422, 431)


class Refused(Exception):
    """Raised for a survey that this client must not answer."""


class Unusable(Exception):
    """Raised if the state or the network cannot be used."""


# Section 1: documents


def is_line(text: object, limit: int = 2_000) -> bool:
    if not isinstance(text, str) or not 0 < len(text) <= limit or not text.strip():
        return False
    return all(char == " " or unicodedata.category(char)[0] not in "CZ" for char in text)


def billionths(text: object) -> int:
    if not isinstance(text, str) or not re.fullmatch(r"(0|[1-9]\d{0,8})(\.\d{0,8}[1-9])?", text):
        raise Refused("ε is not canonical decimal text")
    whole, _, decimals = text.partition(".")
    return int(whole) * 10**9 + int(decimals.ljust(9, "0"))


def lie_of(epsilon: int) -> int:
    """Return ⌈2^64 / (E + 1)⌉ from two bounds of E."""
    exponent, terms = Fraction(epsilon, 10**9), 200
    term = lower = Fraction(1)
    for n in range(1, terms):
        term *= exponent / n
        lower += term
    upper = lower + term  # the rest of the series is below its last term, because terms > 2 ε
    least, largest = math.ceil(2**64 / (upper + 1)), math.ceil(2**64 / (lower + 1))
    if least != largest:
        raise Refused("E is not known exactly enough")
    return least


def day_of(text: object) -> date:
    with suppress(TypeError, ValueError):
        if isinstance(text, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return date.fromisoformat(text)
    raise Refused("not a day")


def is_whole(value: object, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def without_repeats(pairs: list[tuple[str, Any]]) -> Table:
    if len(dict(pairs)) < len(pairs):
        raise Refused("a key is repeated")
    return dict(pairs)


SURVEY_KEYS = {
    *("name", "title", "purpose", "owner", "opens", "closes", "round"),
    *("grace_days", "retention_days", "minimum_reports"),
}
TAG = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}")
BIT_KEYS = {"name", "kind", "over", "epsilon", "mechanism", "integers"}


class Survey:
    """Survey that asks for bits only, with a report of its own in each round."""

    def __init__(self, document: str) -> None:
        try:
            table = json.loads(document, object_pairs_hook=without_repeats)
            self._read(table, table["survey"], table["question"])
        except (ValueError, RecursionError, KeyError, TypeError) as error:
            raise Refused("the document cannot be read") from error

    def _read(self, table: Table, survey: Table, questions: list[Table]) -> None:
        must(table.keys() == {"deniable", "survey", "question"}, "document")
        must(is_whole(table["deniable"], 1, 1), "format")
        must(survey.keys() - {"show_when", "languages"} == SURVEY_KEYS, "keys of the survey")
        tags = read_languages(survey["languages"]) if "languages" in survey else []
        margin = survey.get("show_when", "± 50 points")
        must(re.fullmatch("± ([1-9]|[1-4][0-9]|50) points", margin), "show_when")
        name = r"(?![0-9A-Fa-f]{64}$)[A-Za-z0-9]([A-Za-z0-9-]{0,62}[A-Za-z0-9])?"
        must(re.fullmatch(name, survey["name"], re.ASCII), "name")
        texts = [in_each_language(survey[key], tags) for key in ("title", "purpose", "owner")]
        must(all(is_line(text) for every in texts for text in every), "texts")
        must(survey["round"] in ROUNDS, "round")
        must(is_whole(survey["grace_days"], 0, 366), "grace_days")
        must(is_whole(survey["retention_days"], 0, 3_660), "retention_days")
        must(is_whole(survey["minimum_reports"], 1, 10**9), "minimum_reports")
        self.name, self.period = survey["name"], survey["round"]
        self.opens, self.closes = day_of(survey["opens"]), day_of(survey["closes"])
        must(self.opens <= self.closes, "closes")
        self.grace = timedelta(days=survey["grace_days"])
        must(type(questions) is list and 1 <= len(questions) <= 100, "questions")
        self.costs = {question["name"]: read_bit(question, tags) for question in questions}
        must(len(self.costs) == len(questions), "names of questions")

    def round_of(self, day: date) -> int:
        return ROUNDS[self.period](day)

    def accepted_until(self, round_: int) -> datetime:
        """Return the end of the round's grace period."""
        day = self.opens if self.period != "once" else self.closes
        while self.period != "once" and self.round_of(day) <= round_:
            day += timedelta(days=1)
        end = day if self.period != "once" else day + timedelta(days=1)
        return datetime.combine(end, time(), UTC) + self.grace


def must(claim: object, what: str) -> None:
    if not claim:
        raise Refused(f"the document breaks a rule or needs more than bits: {what}")


def read_languages(tags: Any) -> list[str]:
    must(type(tags) is list and 1 <= len(tags) <= 16 and len({*tags}) == len(tags), "languages")
    must(all(TAG.fullmatch(tag) for tag in tags), "tags of languages")
    return list(tags)


def in_each_language(text: Any, tags: list[str]) -> list[Any]:
    """Return a text in each language; one that is not a table is the same in all."""
    if type(text) is not dict:
        return [text]
    must(tags and text.keys() == {*tags}, "languages of a text")
    return [*text.values()]


def read_bit(question: Table, tags: list[str]) -> int:
    """Return ε in billionths."""
    must(question.keys() - {"title"} == BIT_KEYS, "keys of a question")
    must(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", question["name"], re.ASCII), "name")
    must(question["name"] != "of", "name")
    must((question["kind"], question["over"]) == ("bit", "first"), "kind and over")
    must(question["mechanism"] == "randomized-response", "mechanism")
    titles = in_each_language(question.get("title", "-"), tags)
    must(all(is_line(title, 200) for title in titles), "title")
    epsilon = billionths(question["epsilon"])
    must(0 < epsilon <= 20 * 10**9, "epsilon")
    must(question["integers"] == [str(lie_of(epsilon))], "integers")
    return epsilon


def verified(entry: Table, keys: list[str]) -> Survey:
    """Return the survey of an entry of the list, if a trusted key signed it."""
    document = entry["document"].encode()
    must(len(document) <= 4 * 2**20, "size")
    must(hashlib.sha256(document).hexdigest() == entry["id"], "id")
    must(entry["key"] in keys, "key")
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(entry["key"]))
        key.verify(bytes.fromhex(entry["signature"]), b"deniable survey v1\0" + document)
    except (InvalidSignature, ValueError):
        raise Refused("the signature does not match") from None
    return Survey(entry["document"])


# Sections 2 to 4: rounds, reports, envelopes

ROUNDS: dict[str, Callable[[date], int]] = {
    "once": lambda _: 0,
    "day": lambda day: (day - date(1970, 1, 1)).days,
    "week": lambda day: ((day - date(1970, 1, 1)).days + 3) // 7,
    "month": lambda day: (day.year - 1970) * 12 + day.month - 1,
}


PLACES = {"true": 1, "1": 1, "false": 0, "0": 0}  # by the value's JSON


def randomized(answer: object, lie: int, draw: Callable[[int], bytes]) -> int:
    """Return a bit's symbol. A value that does not fit is replaced by a random one."""
    anything = draw(1)[0] & 1
    placed = PLACES.get(json.dumps(answer), anything)
    return placed ^ (int.from_bytes(draw(8), "little") < lie)


def envelope_id(key: bytes, survey: str, round_: int) -> bytes:
    message = b"id\0" + bytes.fromhex(survey) + struct.pack("<I", round_)
    return hmac.digest(key, message, "sha256")[:16]


def packed(survey: str, round_: int, id_: bytes, payload: bytes) -> bytes:
    head = b"DNB1" + bytes.fromhex(survey) + struct.pack("<I", round_) + id_
    return head + struct.pack("<II", 1, len(payload)) + payload


def quarter_of(day: date) -> str:
    return f"{day.year}-Q{(day.month + 2) // 3}"


def rounds_of_quarter(survey: Survey, quarter: str) -> list[int]:
    """Return the rounds of the survey's period that begin in a quarter."""
    year, number = int(quarter[:4]), int(quarter[-1])
    day, found = date(year, 3 * number - 2, 1), list[int]()
    while quarter_of(day) == quarter:
        if survey.round_of(day) != survey.round_of(day - timedelta(days=1)):
            found.append(survey.round_of(day))
        day += timedelta(days=1)
    return found


def drawn_rounds(
    survey: Survey, rounds: list[int], count: int, quarter: str, key: bytes
) -> set[int]:
    """Return the rounds of a quarter that a person answers."""

    def score(number: int) -> bytes:
        texts = ("participation", survey.name, quarter, str(number))
        return hmac.digest(key, "\0".join(texts).encode(), "sha256")

    return {*sorted(rounds, key=score)[:count]}


# Section 6: the state, and what a client does with it

EMPTY: Table = {
    "consent": None,
    "charges": [],  # [survey, round, quarter, name of the cap, billionths]
    "person": None,  # key that draws the rounds to answer
    "keys": {},  # by survey: the key and the second until which it is kept
    "waiting": [],
    "closed": [],
    "list": [],
    "fetched": None,
    "pause": 0,
}


class State:
    """One file, with a checksum, that is replaced as a whole while a lock is held."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._file = self._folder / "state"

    @property
    def exists(self) -> bool:
        return self._file.exists()

    @contextmanager
    def changed(self) -> Iterator[Table]:
        """Yield the state; write it durably if the block ends without an error."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / "lock").open("wb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                state = self._read()
                yield state
                self._write(state)
        except OSError as error:
            raise Unusable("the disk") from error

    def _read(self) -> Table:
        if not self.exists:
            return deepcopy(EMPTY)
        checksum, _, text = self._file.read_bytes().partition(b"\n")
        if hashlib.sha256(text).hexdigest().encode() != checksum:
            raise Unusable("the state was damaged or changed")
        state: Table = json.loads(text)
        return state

    def _write(self, state: Table) -> None:
        text = json.dumps(state).encode()
        new = self._folder / "new"
        with new.open("wb") as file:
            file.write(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._file)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class Client:
    """Client for bits of one server."""

    def __init__(self, server: str, state: str, policy: Table, now: datetime) -> None:
        self._address = urlsplit(server)
        if self._address.scheme != "https" and self._address.hostname not in LOOPBACK:
            raise Unusable("http is for this machine only: use https")
        self._state, self._policy, self.now = State(state), policy, now

    def consent(self, given: bool) -> None:
        with self._state.changed() as state:
            state["consent"] = given
            if not given:
                state["waiting"] = []

    def forget(self) -> None:
        if self._state.exists:
            with self._state.changed() as state:
                state.update(consent=None, waiting=[], keys={}, person=None)

    def answer(self, wanted: str, answers: Table) -> str:
        if not self._state.exists:
            return "no-consent"
        with self._state.changed() as state:
            if not state["consent"]:
                return "no-consent"
            self._forget_expired(state)
            found = self._find(state, wanted, answers)
            if isinstance(found, str) and not self._is_fresh(state):
                self._fetch(state)
                found = self._find(state, wanted, answers)
            elif not isinstance(found, str) and not self._is_fresh(state):
                settled = self._obstacle(state, *found)
                if settled:
                    return settled
                self._fetch(state)
                found = self._find(state, wanted, answers)
            if isinstance(found, str):
                return found
            if refusal := self._obstacle(state, *found):
                return refusal
            self._charge(state, *found)
        return self._queue(*found, answers)

    def _find(self, state: Table, wanted: str, answers: Table) -> tuple[str, Survey] | str:
        """Return the id and survey to answer, or the status that says why there is none."""
        status, sound = "no-survey", []
        for position, entry in enumerate(state["list"]):
            try:
                survey = verified(entry, self._policy["keys"])
                self._check(survey, answers)
            except Refused:
                named = f'"{wanted}"' in entry["document"]
                status = "refused" if entry["id"] == wanted or named else status
                continue
            if wanted in (entry["id"], survey.name):
                sound.append((survey.opens, position, entry["id"], survey))
        today = self.now.date()
        answerable = [
            listed
            for listed in sound
            if listed[2] not in state["closed"] and listed[3].opens <= today <= listed[3].closes
        ]
        if answerable:
            return max(answerable, key=lambda listed: listed[:2])[2:]
        return "closed" if sound else status

    def _check(self, survey: Survey, answers: Table) -> None:
        """Refuse a survey by names, kinds and caps, before any value is examined."""
        declared = self._policy["questions"]
        must(all(declared.get(name) == "bit" for name in survey.costs), "policy")
        must(survey.costs.keys() == answers.keys(), "names in the call")
        round_cap = billionths(self._policy["max_epsilon_per_round"])
        asked = sum(survey.costs.values())
        must(asked <= round_cap, "max_epsilon_per_round")
        if self._policy.get("per") == "quarter":
            must(asked <= billionths(self._policy["max_epsilon_per_survey"]), "budget")

    def _costs(self, state: Table, id_: str, survey: Survey) -> Iterator[tuple[str, int, int]]:
        """Yield the name of each cap, the ε of a round, and the cap, in billionths."""
        asked, caps = sum(survey.costs.values()), self._policy
        yield "total", asked, billionths(caps["max_epsilon"])
        if (each := caps.get("max_epsilon_per_question")) is not None:
            for name, cost in survey.costs.items():
                yield f"question {name}", cost, billionths(each)
        if (one := caps.get("max_epsilon_per_survey")) is not None:
            (key,) = (entry["key"] for entry in state["list"] if entry["id"] == id_)
            yield f"survey {survey.name} {key}", asked, billionths(one)

    def _quarter(self, survey: Survey) -> str:
        """Return the quarter in which today's round begins, or "" if caps hold forever."""
        if self._policy.get("per") != "quarter":
            return ""
        day, before = self.now.date(), timedelta(days=1)
        if survey.period == "once":
            return quarter_of(day)
        while survey.round_of(day - before) == survey.round_of(day):
            day -= before
        return quarter_of(day)

    def _obstacle(self, state: Table, id_: str, survey: Survey) -> str | None:
        round_, quarter = survey.round_of(self.now.date()), self._quarter(survey)
        if any(charge[:2] == [id_, round_] for charge in state["charges"]):
            return "already-answered"
        if quarter and survey.period != "once":
            budget = billionths(self._policy["max_epsilon_per_survey"])
            rounds, count = rounds_of_quarter(survey, quarter), budget // sum(survey.costs.values())
            state["person"] = state["person"] or secrets.token_hex(32)
            key = bytes.fromhex(state["person"])
            if round_ not in drawn_rounds(survey, rounds, count, quarter, key):
                return "not-drawn"
        spent = Counter[str]()
        for *_, charged, name, cost in state["charges"]:
            spent[name] += cost * (charged == quarter)
        costs = self._costs(state, id_, survey)
        return "budget-spent" if any(spent[n] + cost > cap for n, cost, cap in costs) else None

    def _charge(self, state: Table, id_: str, survey: Survey) -> None:
        round_, quarter = survey.round_of(self.now.date()), self._quarter(survey)
        for name, cost, _ in self._costs(state, id_, survey):
            state["charges"].append([id_, round_, quarter, name, cost])
        until = survey.accepted_until(survey.round_of(survey.closes)).timestamp()
        state["keys"].setdefault(id_, [secrets.token_hex(32), until])

    def _queue(self, id_: str, survey: Survey, answers: Table) -> str:
        """Draw the noise of a round that was charged, and keep the report."""
        draw, round_ = os.urandom, survey.round_of(self.now.date())
        symbols = [
            randomized(answers[name], lie_of(cost), draw) for name, cost in survey.costs.items()
        ]
        with self._state.changed() as state:
            if not state["consent"] or id_ not in state["keys"]:
                return "no-consent"
            key = bytes.fromhex(state["keys"][id_][0])
            body = packed(id_, round_, envelope_id(key, id_, round_), bytes(symbols))
            until = survey.accepted_until(round_).timestamp()
            state["waiting"].append({"body": body.hex(), "until": until, "tries": 0, "tried": 0})
        return "queued"

    def _forget_expired(self, state: Table) -> None:
        now = self.now.timestamp()
        state["waiting"] = [kept for kept in state["waiting"] if now < kept["until"]]
        state["keys"] = {id_: kept for id_, kept in state["keys"].items() if now < kept[1]}

    # Requests

    def _is_fresh(self, state: Table) -> bool:
        fetched = state["fetched"]
        return fetched is not None and 0 <= self.now.timestamp() - fetched < LIST_SECONDS

    def _fetch(self, state: Table) -> None:
        try:
            status, _, body = self._request("GET", "/v1/surveys")
            listed = json.loads(body)["surveys"] if status == 200 else None
        except (Unusable, ValueError, RecursionError, KeyError, TypeError):
            listed = None
        if isinstance(listed, list):
            state["list"] = [entry for entry in listed if self._is_entry(entry)]
            state["fetched"] = self.now.timestamp()
            closed = {entry["id"] for entry in state["list"] if entry["state"] == "closed"}
            state["closed"] = sorted({*state["closed"], *closed})
        elif state["fetched"] is None:
            raise Unusable("the list could not be fetched")

    @staticmethod
    def _is_entry(entry: object) -> bool:
        keys = ("id", "document", "signature", "key", "state")
        return isinstance(entry, dict) and all(isinstance(entry.get(key), str) for key in keys)

    def _request(
        self, method: str, path: str, body: bytes | None = None
    ) -> tuple[int, Table, bytes]:
        """Return status, headers and body of the reply; a redirect is a reply like others."""
        secure = self._address.scheme == "https"
        kind = HTTPSConnection if secure else HTTPConnection
        connection = kind(str(self._address.hostname), self._address.port, timeout=TIMEOUT_SECONDS)
        headers = {"User-Agent": "bits"}
        if body is not None:
            headers["Content-Type"] = "application/vnd.deniable.envelopes"
        try:
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            replied = {name.lower(): value for name, value in reply.getheaders()}
            return reply.status, replied, reply.read(MAX_LIST_BYTES)
        except (OSError, HTTPException) as error:
            raise Unusable("the network") from error
        finally:
            connection.close()

    def flush(self) -> int:
        """Try each envelope once, if it may be sent; return how many are left."""
        if not self._state.exists:
            return 0
        tried: set[str] = set()
        while (body := self._taken(tried)) is not None:
            tried.add(body)
            try:
                status, headers, reply = self._request("POST", "/v1/envelopes", bytes.fromhex(body))
            except Unusable:
                continue
            with self._state.changed() as state:
                if is_settled(status, headers, reply):
                    state["waiting"] = [kept for kept in state["waiting"] if kept["body"] != body]
                pause = headers.get("retry-after", "")
                if pause.isascii() and pause.isdigit():
                    state["pause"] = self.now.timestamp() + min(int(pause), LIST_SECONDS)
        with self._state.changed() as state:
            return len(state["waiting"])

    def _taken(self, tried: set[str]) -> str | None:
        """Return an envelope to send, after the try is counted on disk."""
        now = self.now.timestamp()
        with self._state.changed() as state:
            self._forget_expired(state)
            if now < state["pause"] or not state["consent"]:
                return None
            for kept in state["waiting"]:
                rested = now - kept["tried"] >= DAY_SECONDS
                if kept["body"] not in tried and (kept["tries"] < MAX_TRIES or rested):
                    kept.update(tries=kept["tries"] + 1, tried=now)
                    return str(kept["body"])
        return None


def is_settled(status: int, headers: Table, body: bytes) -> bool:
    try:
        table = json.loads(body)
    except (ValueError, RecursionError):
        return False
    if not isinstance(table, dict):
        return False
    if status == 200:
        counts: list[Any] = [table.get("accepted"), table.get("duplicates")]
        refused = table.get("refused")
        if not all(type(count) is int for count in counts) or not isinstance(refused, list):
            return False
        if not refused:
            return bool(max(counts) > 0)
        return isinstance(refused[0], dict) and refused[0].get("code") not in (None, "", "early")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return status in FINAL and kind == "application/problem+json" and table.get("status") == status


# The line protocol of README.md


class Adapter:
    client: Client

    def init(self, server: str, state: str, policy: Table, now: str, **_: object) -> Table:
        self.client = Client(server, state, policy, datetime.fromisoformat(now))
        return {"ready": True}

    def clock(self, now: str) -> Table:
        self.client.now = datetime.fromisoformat(now)
        return {}

    def consent(self, given: bool) -> Table:
        try:
            self.client.consent(given)
        except Unusable:
            return {"kept": False}
        return {"kept": True}

    def answer(self, survey: str, answers: Table, of: str = "today") -> Table:
        if of != "today":
            return {"unsupported": True}
        try:
            return {"status": self.client.answer(survey, answers)}
        except Unusable:
            return {"status": "unavailable"}

    def flush(self) -> Table:
        return {"waiting": self.client.flush()}

    def forget(self) -> Table:
        self.client.forget()
        return {"done": True}

    def integers(self, mechanism: str, epsilon: str, **_: object) -> Table:
        if mechanism != "randomized-response":
            return {"unsupported": True}
        return {"integers": [str(lie_of(billionths(epsilon)))]}

    def round(self, document: str, day: str) -> Table:
        survey = Survey(document)
        round_ = survey.round_of(date.fromisoformat(day))
        return {"round": round_, "accepted_until": int(survey.accepted_until(round_).timestamp())}

    def envelope_id(self, key: str, survey: str, round: int) -> Table:  # noqa: A002 - its key
        return {"id": envelope_id(bytes.fromhex(key), survey, round).hex()}


def serve() -> None:
    adapter = Adapter()
    for line in sys.stdin:
        request = json.loads(line)
        operation = getattr(adapter, request.pop("op"), None)
        try:
            reply = {"unsupported": True} if operation is None else operation(**request)
        except (Refused, Unusable) as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    serve()
