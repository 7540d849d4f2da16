"""The client SDK: answers are randomized on the device, and only reports leave it.

Importing this loads nothing else: each name is loaded when it is first used.
"""

TYPE_CHECKING = False  # type checkers know better; `typing` alone would cost 10 ms

if TYPE_CHECKING:
    from deniable.client.client import Client
    from deniable.client.outcome import Outcome
    from deniable.client.policy import Policy

__all__ = ["Client", "Outcome", "Policy"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{name.lower()}"), name)
    globals()[name] = value
    return value
