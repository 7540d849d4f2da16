"""Tools for an app's own tests: the real client, with a server in memory and a clock to move.

    FakeClient    a `Client` whose reports a test can read, with noise that a test may seed
    FakeServer    its server, which lists surveys, accepts reports, and fails on request

They work only under pytest or if DENIABLE_TESTING is set. `deniable_client` (plugin.py) is a
pytest fixture that makes clients and closes them. `transcripts` measures what a client sends.
"""

TYPE_CHECKING = False

if TYPE_CHECKING:
    from deniable.client.testing.fakes import FakeClient, FakeServer, SentReport

__all__ = ["FakeClient", "FakeServer", "SentReport"]

if not TYPE_CHECKING:  # pytest imports this package at every start, for the fixture

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from deniable.client.testing import fakes

        return getattr(fakes, name)
