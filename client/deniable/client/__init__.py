"""The client SDK: answers are randomized on the device, and only reports leave it.

Importing this loads nothing else: each name is loaded when it is first used.
"""

TYPE_CHECKING = False  # type checkers know better; `typing` alone would cost 10 ms

if TYPE_CHECKING:
    from deniable.client.client import Client
    from deniable.client.outcome import Outcome
    from deniable.client.person import Person
    from deniable.client.policy import Policy
    from deniable.shared.errors import DeniableError, InvalidAnswer, InvalidPerson, InvalidPolicy

__all__ = [
    "Client",
    "DeniableError",
    "InvalidAnswer",
    "InvalidPerson",
    "InvalidPolicy",
    "Outcome",
    "Person",
    "Policy",
]

if not TYPE_CHECKING:  # else every name would seem to be there
    ERRORS = ("DeniableError", "InvalidAnswer", "InvalidPerson", "InvalidPolicy")

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        place = "deniable.shared.errors" if name in ERRORS else f"{__name__}.{name.lower()}"
        value = getattr(import_module(place), name)
        globals()[name] = value
        return value
