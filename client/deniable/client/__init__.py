"""The client SDK: answers are randomized on the device, and only reports leave it.

Importing this loads nothing else: each name is loaded when it is first used.
"""

TYPE_CHECKING = False  # type checkers know better; `typing` alone would cost 10 ms

if TYPE_CHECKING:
    __version__: str
    from deniable.client.budget import Budget
    from deniable.client.client import Client
    from deniable.client.describing import Description
    from deniable.client.folders import state_folder
    from deniable.client.outcome import Outcome
    from deniable.client.person import Person
    from deniable.client.policy import Policy
    from deniable.client.sent import Summary
    from deniable.shared.errors import DeniableError, InvalidAnswer, InvalidPerson, InvalidPolicy

__all__ = [
    "Budget",
    "Client",
    "DeniableError",
    "Description",
    "InvalidAnswer",
    "InvalidPerson",
    "InvalidPolicy",
    "Outcome",
    "Person",
    "Policy",
    "Summary",
    "state_folder",
]

if not TYPE_CHECKING:  # else every name would seem to be there
    ELSEWHERE = {
        "DeniableError": "deniable.shared.errors",
        "InvalidAnswer": "deniable.shared.errors",
        "InvalidPerson": "deniable.shared.errors",
        "InvalidPolicy": "deniable.shared.errors",
        "Description": "deniable.client.describing",
        "Summary": "deniable.client.sent",
        "state_folder": "deniable.client.folders",
    }

    def __getattr__(name):
        if name == "__version__":
            from importlib.metadata import version  # 26 ms, so only if it is asked for

            return version("deniable")
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        place = ELSEWHERE.get(name) or f"{__name__}.{name.lower()}"
        value = getattr(import_module(place), name)
        globals()[name] = value
        return value
