"""True data in a study's options and cells: worked on in memory, and never written.

    Withheld.of(data)      text of its digest; a journal, a run record, a page and a repr show that
    content(text)          the data again, in whatever process the cell runs

It is pickled with its data, so it reaches a pool's or a cluster's workers. JSON and TOML see the
text alone: with other data a journal begins anew, with the same data it goes on. A digest confirms
a guess of all the data at once, and tells nothing else.
"""

from __future__ import annotations

import hashlib
from typing import Self


class Redacted(str):
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
    """The data behind a text that may be withheld, or the text itself."""
    return text.data if isinstance(text, Redacted) else str(text)
