"""Kinds of questions: each is one class and one line in `PATHS`.

`base` defines what a kind provides to the rest of the program. A class is imported when it is first
used, so that an app's Policy can check a kind's name without importing mechanisms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from deniable.shared.survey.kinds.base import Question

PATHS = {
    "bit": "deniable.shared.survey.kinds.choice:Bit",
    "number": "deniable.shared.survey.kinds.number:Number",
    "choice": "deniable.shared.survey.kinds.choice:Choice",
    "text": "deniable.shared.survey.kinds.text:Text",
    "vector": "deniable.shared.survey.kinds.vector:Vector",
}


class Kinds(Mapping[str, "type[Question]"]):
    def __getitem__(self, kind: str) -> type[Question]:
        module, _, name = PATHS[kind].partition(":")
        found: type[Question] = getattr(import_module(module), name)
        return found

    def __contains__(self, kind: object) -> bool:
        """Return whether a kind exists, without importing its class as a plain Mapping would."""
        return isinstance(kind, str) and kind in PATHS

    def __iter__(self) -> Iterator[str]:
        return iter(PATHS)

    def __len__(self) -> int:
        return len(PATHS)


KINDS = Kinds()
