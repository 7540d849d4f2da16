"""The store in PostgreSQL: several nodes at once."""
