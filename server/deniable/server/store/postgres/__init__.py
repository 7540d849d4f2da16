"""The PostgreSQL store: several nodes on one database.

`postgres_store` is the store, `postgres_database` has its tables, locks and connections, and
`database_address` parses URLs. Envelopes arrive in one table, and `scrub` merges them into another
table in the order of their keys.
"""
