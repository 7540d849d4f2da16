"""The `deniable` command: a dispatcher for the verbs that each part brings."""
