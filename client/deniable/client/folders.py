"""Where an app keeps the client's state, if it knows no better place."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from deniable.shared.errors import InvalidPolicy


def state_folder(
    app: str, platform: str = sys.platform, environment: Mapping[str, str] = os.environ
) -> Path:
    r"""The folder for an app of this name: not one that is synchronized between devices or emptied
    now and then, since what was spent is kept there.

    Windows      %LOCALAPPDATA%\my-app          else ~\AppData\Local\my-app
    macOS        ~/Library/Application Support/my-app
    elsewhere    $XDG_STATE_HOME/my-app          else ~/.local/state/my-app
    """
    if not app or app.startswith(".") or any(sign in app for sign in '/\\:*?"<>|\0'):
        raise InvalidPolicy(f'state_folder: give the app a plain name, like "my-app"; got {app!r}')
    home = Path.home()
    if platform == "darwin":
        return home / "Library" / "Application Support" / app
    variable, usual = (
        ("LOCALAPPDATA", home / "AppData" / "Local")
        if platform == "win32"
        else ("XDG_STATE_HOME", home / ".local" / "state")
    )
    named = environment.get(variable, "")
    return (Path(named) if Path(named).is_absolute() else usual) / app
