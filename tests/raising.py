"""Value that must not be examined."""


class Raising:
    """Value that has a type, but raises for every other operation."""

    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> object:
        raise RuntimeError("looked at")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")

    def __bool__(self) -> bool:
        raise RuntimeError("judged")
