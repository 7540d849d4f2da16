"""The people of an install: their identity, their consent, and the ledger of the ε they have spent.

The install's own person is identified by the empty byte string. Any other person is identified by
HMAC-SHA256(key, "person" 00 id), cut to 16 bytes, where the key is random and belongs to this
store. Without the store, these bytes reveal neither the id nor whether two stores know the same
person. Anyone who has the store has the key, and can test ids. The id itself is written to no file
and shown by no `repr`.

A round is charged before its noise is drawn. Each person, survey and round is one row, written
once, with the cost of each question. Where the whole is not the sum of the costs, it is stored
under TOTAL. Totals are sums over the rows, in whole billionths of ε, so no total can drift from the
charges. A row belongs to the calendar quarter in which its round begins, and the app's caps hold
for the sums of each quarter: in total, per question name, and per survey name and signing key.
Every row carries a seal: a hash of itself and the previous seal in that person's ledger; the first
seal covers the person. The number of rows and the last seal are stored separately. So a row that
was changed, lost, reordered or repeated makes the ledger unreadable, and an unreadable ledger means
no report.

A person's rows are read when a connection first charges that person, and again after another
connection has written. As long as no other connection writes, a charge takes constant time.

Neither a crash nor a power cut spends budget twice, or draws noise twice for one round:

1. Noise for a round is drawn only after the transaction that inserts its row is durable. A second
   row for the same person, survey and round is refused inside that transaction and by UNIQUE.
2. Transactions are serial, and SQLite's recovery keeps a prefix of them. So once noise was drawn,
   every state that can follow contains the row.
3. The report is written after the charge. If it is lost, the budget was spent for no report.

Where a survey latches reports (`repeat = "latched"`), the rounds that share one report are a span.
The first answer of a span is charged under the span's first round, and its report is kept:

1. Only the call that has charged the span draws noise. Every other call sends the kept report, or
   nothing.
2. Only that call keeps a report, together with the first envelope, and its bytes never change. If
   the kept report is erased, withdrawn, expired or lost, the other rounds are `already-answered`.
3. A round is marked as used, durably, before its report is queued. The number of the marked round
   only increases, so a round is queued once, even if the clock is set back.

Only the first answer of a span is examined, so time, disk and network cannot show whether a later
answer differs. A kept report links its rounds to this device, as a survey's key does. It is deleted
when the span ends.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from deniable.client.outcome import Outcome
from deniable.client.policy import Policy
from deniable.client.state import Transaction
from deniable.shared.errors import InvalidPerson, StoreUnusable
from deniable.shared.privacy.epsilon import decimal_text
from deniable.shared.survey.participation import LIFETIME

if TYPE_CHECKING:
    from deniable.shared.envelope import Envelope
    from deniable.shared.survey.document import Survey

MAX_ID_CHARACTERS = 1_000
PERSON_BYTES = 16
KEY_BYTES = 32
OWN = b""  # the install's own person
TOTAL = ""  # no question has this name
MAX_CACHED_PEOPLE = 1_000  # whose totals are kept in memory
MAX_WITHHELD = 1_000  # people whom one statement excludes

SHOW = "DENIABLE_SHOW"  # print an example of a report, and send nothing
SWITCHES = ("DO_NOT_TRACK", "DENIABLE_OFF", SHOW)
# Variables that continuous integration sets: its runs are not people.
ROBOTS = (
    "CI", "CONTINUOUS_INTEGRATION", "GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE", "JENKINS_URL",
    "TF_BUILD", "TEAMCITY_VERSION", "CIRCLECI", "TRAVIS", "APPVEYOR", "BITBUCKET_BUILD_NUMBER",
    "CODEBUILD_BUILD_ID", "DRONE",
)  # fmt: skip
NOT_GIVEN = "consent was not given; call client.consent(True) once the person agrees"
CHANGED = "another program changed the ledger, so the ε already spent is unknown"

# consent: "yes" or "no"; dropped: number of reports dropped because too many were waiting;
# participation: the key that draws the rounds to answer, in hex; others: survey_cache.py
Setting = str


class Identity:
    """A person's id as the app gives it (None: the install's own person), and public labels."""

    __slots__ = ("_text", "labels")

    def __init__(self, text: str | None, labels: Mapping[str, str] | None = None) -> None:
        self.labels = labels or {}
        self._text = None if text is None else _checked(text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def person(self, db: Transaction) -> bytes:
        """Return the bytes that stand for this person in this store, and lock the person's rows."""
        person = self.hash(db)
        db.lock(person)
        return person

    def hash(self, db: Transaction) -> bytes:
        if self._text is None:
            return OWN
        import hmac

        return hmac.digest(db.people_key(), b"person\0" + self._text, "sha256")[:PERSON_BYTES]


class Consent:
    """Consent of one person, read in each transaction, because another process may withdraw it."""

    def __init__(self, identity: Identity, allow_ci: bool = False) -> None:
        self.identity, self.allow_ci = identity, allow_ci
        self.withdrawn = False  # through this object; holds even if the disk fails
        self.unkept = ""  # the reason why consent that was given could not be stored

    def is_given(self, db: Transaction) -> bool:
        return self.recorded(db) is True

    def recorded(self, db: Transaction) -> bool | None:
        """Return the person's choice; None if the person was never asked."""
        if self.withdrawn:
            return False
        value = read_setting(db, self.identity.person(db), "consent")
        return {"yes": True, "no": False}.get(value or "")

    def obstacle(self, db: Transaction) -> Outcome | None:
        """Return the reason why nothing may be stored, fetched or sent now."""
        overrule = overruled(self.allow_ci)
        return overrule or (None if self.is_given(db) else Outcome("no-consent", NOT_GIVEN))


class Consents:
    """Consent of all people of a client, who share its fetching and sending."""

    def __init__(self) -> None:
        self.allow_ci = False
        self.unwritten: set[Identity] = set()  # people whose withdrawal is not on disk yet

    def obstacle(self, db: Transaction) -> Outcome | None:
        """Return the reason why nothing may be fetched or sent now, for anyone."""
        others, values = withheld(db)
        yes = f"SELECT 1 FROM settings WHERE name = 'consent' AND value = 'yes' {others}"  # noqa: S608 - placeholders
        (given,) = db.execute(f"SELECT EXISTS ({yes})", values).fetchone()
        return overruled(self.allow_ci) or (None if given else Outcome("no-consent", NOT_GIVEN))


def withheld(db: Transaction) -> tuple[str, dict[str, bytes]]:
    """Return a condition that excludes people whose withdrawal is not stored yet, and its values.

    Beyond MAX_WITHHELD people, it excludes everyone.
    """
    people = db.unwritten.copy()
    if len(people) > MAX_WITHHELD:
        return "AND FALSE", {}
    values = {f"held{number}": one.hash(db) for number, one in enumerate(people)}
    names = ", ".join(f":{name}" for name in values)
    return f"AND person NOT IN ({names})" if values else "", values


def overruled(
    allow_ci: bool = False, environment: Mapping[str, str] = os.environ
) -> Outcome | None:
    """Return the refusal if an environment variable overrules the app's consent."""
    for name in SWITCHES if allow_ci else SWITCHES + ROBOTS:
        if is_on(name, environment):
            advice = "; to answer in continuous integration, pass allow_ci=True"
            detail = f"the environment overrules consent: {name} is set"
            return Outcome("no-consent", detail + advice * (name in ROBOTS))
    return None


def is_on(name: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a variable of the environment is set, and not to a word for "off"."""
    return environment.get(name, "").strip().lower() not in ("", "0", "false", "no", "off")


def count_others(db: Transaction) -> int:
    """Count the people, except the install's own, who gave or refused consent or were charged."""
    query = (
        "SELECT count(*) FROM (SELECT person FROM ledgers UNION SELECT person FROM settings)"
        " AS people WHERE person != ?"
    )
    return int(db.execute(query, (OWN,)).fetchone()[0])


def read_setting(db: Transaction, person: bytes, name: Setting) -> str | None:
    row = db.execute(
        "SELECT value FROM settings WHERE person = ? AND name = ?", (person, name)
    ).fetchone()
    return None if row is None else str(row[0])


def write_setting(db: Transaction, person: bytes, name: Setting, value: str) -> None:
    query = "INSERT INTO settings VALUES (?, ?, ?) ON CONFLICT (person, name) DO UPDATE SET value"
    db.execute(f"{query} = excluded.value", (person, name, value))


def make_participation_key(db: Transaction, person: bytes) -> None:
    """Make the key that draws a person's rounds, unless there is one."""
    row = (person, "participation", os.urandom(KEY_BYTES).hex())
    db.execute("INSERT INTO settings VALUES (?, ?, ?) ON CONFLICT DO NOTHING", row)


def participation_key(db: Transaction, person: bytes) -> bytes:
    key = bytes.fromhex(read_setting(db, person, "participation") or "")
    if len(key) != KEY_BYTES:
        raise ValueError("the key that draws the rounds is damaged")
    return key


# The ledger


class Charge(NamedTuple):
    """Cost of one round, or of a span under its first round."""

    survey: str  # the survey's id
    round: int
    quarter: str  # in which the round begins
    name: str  # the survey's name
    key: str  # that signed the survey
    costs: Mapping[str, int]  # billionths by question name
    total: int


class Spent(NamedTuple):
    """The sums of some charges, in billionths of ε."""

    total: int = 0
    questions: Mapping[str, int] = {}  # by name
    surveys: Mapping[tuple[str, str], int] = {}  # by name and signing key

    def plus(self, charge: Charge) -> Spent:
        surveys = Counter(self.surveys) + Counter({(charge.name, charge.key): charge.total})
        questions = Counter(self.questions) + Counter(charge.costs)
        return Spent(self.total + charge.total, questions, surveys)


class Ledger(NamedTuple):
    """All charges of a person, as read within one transaction."""

    charges: int = 0
    sums: Mapping[str, Spent] = {}  # by quarter, and under LIFETIME
    seal: str = ""

    def spent(self, block: str) -> Spent:
        """Return what was spent in a quarter, or under LIFETIME in all of them."""
        return self.sums.get(block, Spent())

    @property
    def total(self) -> int:
        return self.spent(LIFETIME).total

    @property
    def questions(self) -> Mapping[str, int]:
        return self.spent(LIFETIME).questions

    def plus(self, charge: Charge, seal: str) -> Ledger:
        blocks = (charge.quarter, LIFETIME)
        sums = {block: self.spent(block).plus(charge) for block in blocks}
        return Ledger(self.charges + 1, {**self.sums, **sums}, seal)

    def obstacle(self, charge: Charge, policy: Policy) -> str | None:
        """Return the reason why a charge exceeds the policy's caps, or None if it fits."""
        block = charge.quarter if policy.renews else LIFETIME
        spent, extent = self.spent(block), f" in {block}" * policy.renews
        of_survey = spent.surveys.get((charge.name, charge.key), 0)
        limits = [
            ("this install", spent.total, charge.total, policy.total_cap),
            (f"survey {charge.name!r}", of_survey, charge.total, policy.survey_cap),
        ]
        if (cap := policy.question_cap) is not None:
            limits += (
                (f"question {name!r}", spent.questions.get(name, 0), cost, cap)
                for name, cost in charge.costs.items()
            )
        for spender, before, asked, limit in limits:
            if before + asked > limit:
                return _sentence(spender, before, asked, limit, extent)
        return None


def read_ledger(db: Transaction, person: bytes = OWN) -> Ledger:
    """Read and verify a person's ledger; raise StoreUnusable if any row was changed."""
    ledger = db.verified.get(person)
    if ledger is None:
        ledger = _verified(db, person)
        _cache(db, person, ledger)
    return ledger


def is_charged(db: Transaction, person: bytes, survey: str, round_number: int) -> bool:
    """Return whether a round was charged, in a ledger that was read in this transaction."""
    query = "SELECT 1 FROM charges WHERE person = ? AND survey = ? AND round = ?"
    return db.execute(query, (person, survey, round_number)).fetchone() is not None


def has_gap(db: Transaction) -> bool:
    (charges,) = db.execute("SELECT count(*) FROM charges").fetchone()
    return bool(charges != db.charges())


def write_charge(db: Transaction, person: bytes, ledger: Ledger, charge: Charge) -> None:
    whole = {} if charge.total == sum(charge.costs.values()) else {TOTAL: charge.total}
    text = json.dumps(dict(charge.costs) | whole)
    row = (charge.survey, charge.round, charge.quarter, charge.name, charge.key, text)
    after = ledger.plus(charge, _seal(ledger.seal, row))
    db.execute(
        "INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        ((db.charges() or ledger.charges) + 1, person, *row, after.seal),
    )
    _cache(db, person, after)
    db.execute(
        "INSERT INTO ledgers VALUES (?, ?, ?) ON CONFLICT (person) DO UPDATE"
        " SET charges = excluded.charges, seal = excluded.seal",
        (person, after.charges, after.seal),
    )


def keep_report(db: Transaction, person: bytes, survey: Survey, envelope: Envelope) -> None:
    """Keep the report of a span, drawn in this envelope's round and queued with it."""
    span, drawn = survey.span_of(envelope.round), envelope.round
    until = int(survey.round_ends(span[-1]).timestamp())
    db.execute(
        "INSERT INTO kept_reports VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (person, envelope.survey, span[0], drawn, drawn, envelope.payload, until),
    )


def use_kept_report(
    db: Transaction, person: bytes, survey: str, span: range, round_number: int
) -> tuple[int, bytes]:
    """Return the round that drew the span's report, and its payload; mark a later round as used.

    `has_kept_report` must have allowed the round in the same transaction.
    """
    where = (person, survey, span[0])
    query = "SELECT drawn, payload FROM kept_reports WHERE person = ? AND survey = ? AND first = ?"
    drawn, payload = db.execute(query, where).fetchone()
    query = "UPDATE kept_reports SET used = ? WHERE person = ? AND survey = ? AND first = ?"
    db.execute(query, (round_number, *where))
    return int(drawn), bytes(payload)


def has_kept_report(
    db: Transaction, person: bytes, survey: str, span: range, round_number: int
) -> bool:
    """Return whether the span's report can be sent in this round, later than all before."""
    query = "SELECT 1 FROM kept_reports WHERE person = ? AND survey = ? AND first = ? AND used < ?"
    return db.execute(query, (person, survey, span[0], round_number)).fetchone() is not None


def _verified(db: Transaction, person: bytes) -> Ledger:
    ledger = Ledger(seal=person.hex())
    rows = db.execute(
        "SELECT survey, round, quarter, name, key, costs, seal FROM charges WHERE person = ?"
        " ORDER BY number",
        (person,),
    )
    for *row, sealed in rows:
        if sealed != _seal(ledger.seal, row):
            raise StoreUnusable(CHANGED)
        survey, round_number, quarter, name, key, text = row
        costs = json.loads(text)
        whole = costs.pop(TOTAL, None)
        total = sum(costs.values()) if whole is None else whole
        charge = Charge(survey, round_number, quarter, name, key, costs, total)
        ledger = ledger.plus(charge, sealed)
    last = db.execute("SELECT charges, seal FROM ledgers WHERE person = ?", (person,)).fetchone()
    if (last or (0, person.hex())) != (ledger.charges, ledger.seal):
        raise StoreUnusable(CHANGED)
    return ledger


def _cache(db: Transaction, person: bytes, ledger: Ledger) -> None:
    """Cache a ledger with the connection, which is closed when a transaction fails."""
    if len(db.verified) >= MAX_CACHED_PEOPLE:
        db.verified.clear()
    db.verified[person] = ledger


def _seal(before: str, row: Sequence[str | int]) -> str:
    return hashlib.sha256(json.dumps([before, *row]).encode()).hexdigest()


def _sentence(spender: str, spent: int, asked: int, cap: int, extent: str) -> str:
    return (
        f"{spender} has spent ε {decimal_text(spent)} of the {decimal_text(cap)} that the app "
        f"allows{extent}, and this survey asks for {decimal_text(asked)} more; nothing was charged"
    )


def _checked(text: str) -> bytes:
    if not 0 < len(text) <= MAX_ID_CHARACTERS:
        raise InvalidPerson(f"it has {len(text)} characters")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidPerson("it is not Unicode text")
    return text.encode()
