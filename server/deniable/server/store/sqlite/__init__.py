"""The SQLite store: one file for one node.

`sqlite_store` is the store. It reads through read-only connections, and writes through one
`write_connection`, which keeps groups in the `redo_file` until their transaction is committed.
`envelope_rows` stores envelopes, most of them in shared rows (`bucket`). `wal_check`, `inspection`
and `damaged_files` detect damage; `backup_file` copies a store.
"""
