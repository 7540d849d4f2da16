"""The SQLite store: one file for one node.

`sqlite_store` reads through read-only connections from `sqlite_database`, and writes through one
`write_connection`, which keeps groups in the `redo_file` until their transaction is committed.
`envelope_rows` packs envelopes into rows (`bucket`), and large payloads into `part_slots`.
`wal_check`, `inspection` and `damaged_files` detect damage; `receipt_count` detects lost reports.
`backup_file` backs up and restores a store.
"""
