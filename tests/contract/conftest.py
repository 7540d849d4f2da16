"""Fixtures of the contract tests, shared with the server's tests that create databases."""

from tests.server.conftest import cluster, eager

__all__ = ["cluster", "eager"]
