"""Every error that deniable raises on purpose, in one tree.

    DeniableError
    ├── InvalidEpsilon      an ε that is not an exact decimal above 0 and at most 20   (ValueError)
    ├── InvalidSurvey       a survey document that nobody should answer                (ValueError)
    ├── InvalidPolicy       a policy that an app cannot have meant                     (ValueError)
    ├── InvalidAnswer       an answer to a question that the policy does not declare   (ValueError)
    ├── InvalidPerson       an id for which an app keeps no person                     (ValueError)
    ├── InvalidEnvelope     bytes that are not envelopes, or an envelope not taken     (ValueError)
    ├── UntrustedSurvey     a survey that no trusted key has signed
    ├── WrongUse            a command called with what it cannot use: exit code 2
    ├── Refused             a server, or a store, said no: exit code 3
    ├── Unfinished          work that could not be done: whatever tried it died
    └── StoreUnusable       a data folder or database that this version must not touch

A message says what was wrong, what was got and what to do. It never carries an answer: messages
end in logs, and an answer never leaves the device.
"""

from deniable.shared.refusals import EnvelopeCode, RequestCode


class DeniableError(Exception):
    """The base of all of them: catch this to catch everything that is ours."""


class InvalidEpsilon(DeniableError, ValueError):
    """An ε that is not decimal text above 0 and at most 20."""


class InvalidSurvey(DeniableError, ValueError):
    """A survey document with a mistake: `key` names the place, `problem` mistake and cure."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}")
        self.key, self.problem = key, problem


class InvalidPolicy(DeniableError, ValueError):
    """A policy that cannot be meant: no key, a cap that is not a decimal, a key that is not one."""


class InvalidAnswer(DeniableError, ValueError):
    """An answer to a question that the app's policy does not declare. Never carries the answer."""

    def __init__(self, question: str) -> None:
        super().__init__(
            f"question {question!r} is not declared in Policy(questions={{...}}), so nothing was "
            "recorded; declare it there, or correct its name"
        )
        self.question = question


class InvalidPerson(DeniableError, ValueError):
    """An id that names no person: empty, very long, or no text. Never carries the id."""

    def __init__(self, mistake: str) -> None:
        super().__init__(
            "a person's id is a text of 1 to 1000 characters, the app's own for them; "
            f"this one cannot be used: {mistake}; nothing was recorded"
        )


class InvalidEnvelope(DeniableError, ValueError):
    """Bytes or JSON that are no envelopes. `code` is for programs, the detail for people."""

    def __init__(self, code: EnvelopeCode | RequestCode, detail: str) -> None:
        super().__init__(detail)
        self.code, self.detail = code, detail


class UntrustedSurvey(DeniableError):
    """The signature is missing or wrong, or its key is not one that the app ships with."""


class WrongUse(DeniableError):
    """A command was called with something that it cannot use."""


class Refused(DeniableError):
    """What was asked was understood, and refused."""


class Unfinished(DeniableError):
    """Pieces of work whose worker died each time, also alone; nothing half-done was kept."""

    def __init__(self, items: list[str]) -> None:
        named = ", ".join(items[:3]) + (f" and {len(items) - 3} more" if len(items) > 3 else "")
        super().__init__(
            f"{len(items)} of the pieces of work ended their process each time they were tried: "
            f"{named}. No result was written; give them more memory, or leave them out."
        )
        self.items = items


class StoreUnusable(DeniableError):
    """The data folder or database is not one that this version may read or write."""
