"""Private data in a study's options and cells: used in memory, and never written.

    Redacted(digest(data), data)    text of the digest, which journal, record, page and repr show
    content(text)                   the data, in whatever process the cell runs

It is pickled with its data, so it reaches the workers of a pool or cluster. JSON and TOML see only
the digest: with other data a journal starts over, with the same data it resumes. A digest confirms
a guess of all the data, and reveals nothing else.
"""

from __future__ import annotations

import hashlib
from typing import Self


class Redacted(str):
    """Digest of private data, as text, which carries the data in memory."""

    __slots__ = ("data",)
    data: str

    def __new__(cls, digest: str, data: str) -> Self:
        self = super().__new__(cls, digest)
        self.data = data
        return self

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # str has one of its own
        return str(self), self.data


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def content(text: object) -> str:
    """Return the data behind a redacted text, or the text itself."""
    return text.data if isinstance(text, Redacted) else str(text)
