"""The client SDK: answers are randomized on the device, and only reports leave it.

Importing this loads nothing else: each name is loaded when it is first used.
"""

TYPE_CHECKING = False  # type checkers know better; `typing` alone would cost 10 ms

if TYPE_CHECKING:
    from deniable.client.client import Client
    from deniable.client.folders import state_folder
    from deniable.client.outcome import Outcome
    from deniable.client.policy import Policy
    from deniable.shared.errors import DeniableError, InvalidAnswer, InvalidPolicy

__all__ = [
    "Client",
    "DeniableError",
    "InvalidAnswer",
    "InvalidPolicy",
    "Outcome",
    "Policy",
    "state_folder",
]

if not TYPE_CHECKING:  # else every name would seem to be there
    PLACES = {
        "DeniableError": "deniable.shared.errors",
        "InvalidAnswer": "deniable.shared.errors",
        "InvalidPolicy": "deniable.shared.errors",
        "state_folder": "deniable.client.folders",
    }

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        place = PLACES.get(name, f"{__name__}.{name.lower()}")
        value = getattr(import_module(place), name)
        globals()[name] = value
        return value
