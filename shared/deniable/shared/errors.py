"""The tree of errors, and the codes with which a server refuses.

    DeniableError
    ├── InvalidEpsilon      an ε that is not an exact decimal above 0 and at most 20   (ValueError)
    ├── InvalidSurvey       a mistake in a survey document                             (ValueError)
    ├── InvalidPolicy       a mistake in an app's policy                               (ValueError)
    ├── InvalidAnswer       an answer to a question that the policy does not declare   (ValueError)
    ├── InvalidPerson       a person's id that cannot be used                          (ValueError)
    ├── InvalidEnvelope     bytes that are not envelopes, or a refused envelope        (ValueError)
    ├── InvalidMechanism    a class that violates a guarantee of mechanisms            (ValueError)
    ├── UntrustedSurvey     a survey that no trusted key has signed
    ├── WrongUse            a command with arguments that it cannot use: exit code 2
    │   └── WrongField          a field of the planner's form
    ├── Refused             a request that a server or a store refused: exit code 3
    │   └── UnknownSurvey       a text that names no survey, or several
    ├── Unfinished          work whose worker died at each attempt
    ├── StoreUnusable       a data folder or database that this version must not use
    │   ├── StateBlocked        a client's state that another process holds
    │   ├── NoState             a database that holds no state of clients yet
    │   ├── Damaged             data that a disk has damaged
    │   └── StoreLost           a store that was deleted or replaced while in use
    ├── NoTable             a question for which no optimal table was found
    ├── Unreachable         a request that got no usable reply from a server (client)
    ├── TooLarge            a reply larger than the client reads                       (ValueError)
    ├── ProxyRefused        an HTTP proxy that opens no tunnel                            (OSError)
    ├── HttpError           a refused HTTP request, answered with a problem document
    ├── Unavailable         a server that cannot accept reports now
    ├── Full                a relay that cannot hold more
    └── NotTaken            a batch that the server behind a relay did not accept

A message states what was wrong, what was received and how to fix it. It never contains an answer:
messages end up in logs, and an answer never leaves the device.
"""

from typing import Literal

# Type checkers refuse any code that is not listed here.
# Codes in the receipt of an envelope:
EnvelopeCode = Literal[
    "unknown-survey", "closed", "early", "late", "bad-payload", "too-many",
    "invitation-missing", "invitation-unknown", "invitation-spent",
]  # fmt: skip
# Codes in the problem document of a request:
RequestCode = Literal[
    "bad-body", "too-many", "too-long", "rate-limited", "invalid-survey", "untrusted-survey",
    "other-questions", "list-full",
]  # fmt: skip


class DeniableError(Exception):
    """Base of all errors that deniable raises on purpose."""


class InvalidEpsilon(DeniableError, ValueError):
    """Raised for an ε that is not decimal text above 0 and at most 20."""


class InvalidSurvey(DeniableError, ValueError):
    """Raised for a mistake in a survey document: `problem` states it and the fix."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}")
        self.key, self.problem = key, problem


class InvalidPolicy(DeniableError, ValueError):
    """Raised for a mistake in an app's policy, such as an invalid key or cap."""


class InvalidAnswer(DeniableError, ValueError):
    """Raised for an answer to an undeclared question. Never contains the answer."""

    def __init__(self, question: str) -> None:
        super().__init__(
            f"question {question!r} is not declared in Policy(questions={{...}}), so nothing was "
            "recorded; declare it there, or correct its name"
        )
        self.question = question


class InvalidPerson(DeniableError, ValueError):
    """Raised for a person's id that cannot be used. Never contains the id."""

    def __init__(self, mistake: str) -> None:
        super().__init__(
            "a person's id must be a text of 1 to 1000 characters that the app chooses; "
            f"this one cannot be used: {mistake}; nothing was recorded"
        )


class InvalidEnvelope(DeniableError, ValueError):
    """Raised for an invalid envelope. `code` is for programs, `detail` for people."""

    def __init__(self, code: EnvelopeCode | RequestCode, detail: str) -> None:
        super().__init__(detail)
        self.code, self.detail = code, detail


class InvalidMechanism(DeniableError, ValueError):
    """Raised for a mechanism that fails `check_mechanism`; the message names the first failure."""


class UntrustedSurvey(DeniableError):
    """Raised for a survey without a valid signature by a trusted key."""


class WrongUse(DeniableError):
    """Raised for a command with unusable arguments."""


class Refused(DeniableError):
    """Raised for a valid request that a server or a store refuses."""


class Unfinished(DeniableError):
    """Raised if the worker of an item died at each attempt. No partial result is kept."""

    def __init__(self, items: list[str]) -> None:
        named = ", ".join(items[:3]) + (f" and {len(items) - 3} more" if len(items) > 3 else "")
        super().__init__(
            f"{len(items)} work items crashed their process at every attempt: {named}. "
            "No result was written; give them more memory, or leave them out."
        )
        self.items = items


class StoreUnusable(DeniableError):
    """Raised for a data folder or database that this version must not read or write."""


def installation(extra: str) -> str:
    """Return how to install the libraries of an extra. No package index has deniable yet."""
    return f"in a checkout of deniable, run: pip install '.[{extra}]'"


def quantity(number: int, one: str, several: str = "") -> str:
    """Return a number with its noun, for a message.

    >>> quantity(1, "report"), quantity(2_000, "report"), quantity(0, "person", "people")
    ('1 report', '2,000 reports', '0 people')
    """
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"
