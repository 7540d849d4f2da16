"""The advisory locks that nodes of one database share; each ends with its transaction.

GROUPS     shared by every group commit; alone: whoever must not meet one halfway
SETTLING   one node settles at a time
CREATING   one start makes the tables
"""

from __future__ import annotations

from sqlalchemy import Connection

OURS, NODES = 1_145_979_441, 1_145_979_442  # of no other program, with luck
GROUPS, SETTLING, CREATING = 1, 2, 3


def lock(connection: Connection, number: int) -> None:
    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s, %s)", (OURS, number))


def try_lock(connection: Connection, number: int) -> bool:
    """Without waiting: whether it is ours now."""
    answer = connection.exec_driver_sql("SELECT pg_try_advisory_xact_lock(%s, %s)", (OURS, number))
    return bool(answer.scalar())


def lock_group(connection: Connection, node: str) -> None:
    """For a group commit: beside those of other nodes, after those of its own name."""
    connection.exec_driver_sql(
        "SELECT pg_advisory_xact_lock_shared(%s, %s), pg_advisory_xact_lock(%s, hashtext(%s))",
        (OURS, GROUPS, NODES, node),
    )
