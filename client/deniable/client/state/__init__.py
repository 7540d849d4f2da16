"""What an install keeps on disk, in one SQLite file. Nobody else in the client speaks SQL.

A function here takes the transaction that the caller has begun (`State.transaction`), so that the
caller decides what reaches the disk together.
"""

from sqlite3 import Connection as Transaction

__all__ = ["Transaction"]
