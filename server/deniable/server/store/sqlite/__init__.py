"""The store in one SQLite file of the data folder."""
