"""For an app's own tests: the real client, with a server in memory and a clock that a test moves.

    FakeClient    a `Client` whose reports can be looked at; noise may be seeded
    FakeServer    what it talks to: lists surveys, takes reports, fails when told to

Works in tests only: under pytest, or where DENIABLE_TESTING is set. `deniable_client` is a fixture
of pytest that makes clients and closes them.
"""

TYPE_CHECKING = False

if TYPE_CHECKING:
    from deniable.client.testing.client import FakeClient
    from deniable.client.testing.server import FakeServer, SentReport

__all__ = ["FakeClient", "FakeServer", "SentReport"]

if not TYPE_CHECKING:  # pytest loads the fixture, and with it this, at each of its starts
    PLACES = {"FakeClient": "client", "FakeServer": "server", "SentReport": "server"}

    def __getattr__(name):
        if name not in PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{PLACES[name]}"), name)
