"""Consent: given in code, kept on disk, withdrawn at any time, and overruled by the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from deniable.client.state import Transaction
from deniable.client.state.settings import read_setting

SWITCHES = ("DO_NOT_TRACK", "DENIABLE_OFF")


@dataclass
class Withdrawal:
    """Whether consent was withdrawn from this object: it holds even where the disk fails."""

    now: bool = False


def switched_off(environment: Mapping[str, str] = os.environ) -> str | None:
    """The environment variable by which a person or an administrator says no, if there is one."""
    for name in SWITCHES:
        if environment.get(name, "").strip().lower() not in ("", "0", "false", "no", "off"):
            return name
    return None


def is_given(db: Transaction) -> bool:
    return read_setting(db, "consent") == "yes"
