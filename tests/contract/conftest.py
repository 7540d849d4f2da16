"""Fixtures of the contract tests, which share them with server tests that create databases."""

from tests.server.conftest import cluster, eager

__all__ = ["cluster", "eager"]
