"""The PostgreSQL store: several nodes on one database.

`postgres_store` is the store, `postgres_database` has its tables, locks and connections,
`database_address` reads a URL. Envelopes arrive in one table and are merged by `scrub` into another
one, in the order of their keys.
"""
