"""Kinds of questions: each is one class in one module, and its line in `KINDS`.

`base` states what a kind provides; everything else in the program reads it there. `beginnings`
hashes the texts of a text question. A class is imported when it is first asked for, so that an
app's Policy can check a kind's name without importing mechanisms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from deniable.shared.survey.kinds.base import Question

PATHS = {
    "bit": "deniable.shared.survey.kinds.bit:Bit",
    "number": "deniable.shared.survey.kinds.number:Number",
    "choice": "deniable.shared.survey.kinds.choice:Choice",
    "text": "deniable.shared.survey.kinds.text:Text",
    "vector": "deniable.shared.survey.kinds.vector:Vector",
}


class Kinds(Mapping[str, "type[Question]"]):
    """The classes of `PATHS` by kind."""

    def __getitem__(self, kind: str) -> type[Question]:
        module, _, name = PATHS[kind].partition(":")
        found: type[Question] = getattr(import_module(module), name)
        return found

    def __contains__(self, kind: object) -> bool:
        """Return whether there is such a kind; a Mapping would import its class to tell."""
        return isinstance(kind, str) and kind in PATHS

    def __iter__(self) -> Iterator[str]:
        return iter(PATHS)

    def __len__(self) -> int:
        return len(PATHS)


KINDS = Kinds()
