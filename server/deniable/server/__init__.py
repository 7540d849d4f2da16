"""The aggregation server: takes reports, keeps tallies, answers with estimates and intervals."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deniable.server.notebook import ask

__all__ = ["ask"]


def __getattr__(name: str) -> object:
    """Import `ask` when it is first used, because its libraries load for half a second."""
    if name == "ask":
        from deniable.server.notebook import ask

        return ask
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
