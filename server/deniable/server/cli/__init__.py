"""Verbs of the `deniable` command that the server provides."""
