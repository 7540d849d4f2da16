"""A value that nobody may look at."""


class Raising:
    """A value that says what it is, and raises at whatever else it is asked."""

    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> object:
        raise RuntimeError("looked at")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")

    def __bool__(self) -> bool:
        raise RuntimeError("judged")
