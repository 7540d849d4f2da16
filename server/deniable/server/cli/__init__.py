"""The verbs that the server brings to the `deniable` command."""
