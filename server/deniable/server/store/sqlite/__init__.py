"""The SQLite store: one file for one node.

`sqlite_store` is the store. It reads through connections that cannot write, and writes through one
`write_connection`, which keeps groups in the `redo_file` until their transaction is committed.
Envelopes lie in `envelope_rows`, most of them several in a `bucket`. `wal_check`, `inspection` and
`damaged_files` notice damage; `backup_file` copies a store.
"""
