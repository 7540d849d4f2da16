"""What one check has found."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    check: str
    well: bool
    says: str
    cure: str = ""
