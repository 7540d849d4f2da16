"""Texts that many people answer, found without a list of them: search, test, estimate."""

from deniable.server.estimation.texts.found import FALSE_DISCOVERY, METHOD, found

__all__ = ["FALSE_DISCOVERY", "METHOD", "found"]
