"""The client SDK: answers are randomized on the device, and only reports leave it.

`Client` takes an answer through `pipeline`: consent, survey (`net`), `policy`, ledger and outbox
(`state`); `net.uploader` sends it later. `disclosure` shows people what is asked, sent and spent.
Importing this package loads nothing else: each name is loaded when it is first used.
"""

TYPE_CHECKING = False  # type checkers assume True; importing `typing` alone would cost 10 ms

if TYPE_CHECKING:
    __version__: str
    from deniable.client.client import Client
    from deniable.client.disclosure import Budget, Description, Summary
    from deniable.client.environment import state_folder
    from deniable.client.outcome import Outcome
    from deniable.client.person import Person
    from deniable.client.policy import Policy
    from deniable.shared.errors import DeniableError, InvalidAnswer, InvalidPerson, InvalidPolicy

__all__ = [
    "Budget", "Client", "DeniableError", "Description", "InvalidAnswer", "InvalidPerson",
    "InvalidPolicy", "Outcome", "Person", "Policy", "Summary", "state_folder",
]  # fmt: skip

if not TYPE_CHECKING:  # otherwise type checkers would accept every name
    ERRORS = ["DeniableError", "InvalidAnswer", "InvalidPerson", "InvalidPolicy"]
    DISCLOSURE = ["Budget", "Description", "Summary"]
    MODULES = {
        **dict.fromkeys(ERRORS, "deniable.shared.errors"),
        **dict.fromkeys(DISCLOSURE, "deniable.client.disclosure"),
        "state_folder": "deniable.client.environment",
    }

    def __getattr__(name):
        if name == "__version__":
            from importlib.metadata import version  # takes 26 ms

            return version("deniable")
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        module = MODULES.get(name) or f"{__name__}.{name.lower()}"
        value = getattr(import_module(module), name)
        globals()[name] = value
        return value
