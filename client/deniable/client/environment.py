"""Environment of an app: the folder for the client's state, and whether that state survives."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from deniable.shared.errors import InvalidPolicy

KEPT = "DENIABLE_STATE_IS_KEPT"
# A variable that each provider sets for the functions that it runs.
PROVIDERS = {
    "AWS_LAMBDA_FUNCTION_NAME": "AWS Lambda",
    "FUNCTIONS_WORKER_RUNTIME": "Azure Functions",
    "K_SERVICE": "Google Cloud Run",
    "VERCEL": "Vercel",
}


def state_folder(
    app: str, platform: str = sys.platform, environment: Mapping[str, str] = os.environ
) -> Path:
    r"""Return the usual state folder for an app of this name.

    The folder records the ε spent, so it is one that the system neither syncs nor empties.

    Windows      %LOCALAPPDATA%\my-app          or ~\AppData\Local\my-app
    macOS        ~/Library/Application Support/my-app
    elsewhere    $XDG_STATE_HOME/my-app          or ~/.local/state/my-app
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


def ephemeral_reason(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the reason why state cannot be kept here, and the fix; None if folders are kept.

    If the ledger is lost after each call, every call has a full budget, so the client refuses to
    start. The variable KEPT overrides this for a folder on a mounted volume.
    """
    providers = [name for variable, name in PROVIDERS.items() if environment.get(variable)]
    if not providers or environment.get(KEPT) == "1":
        return None
    return (
        f"state: {providers[0]} deletes the folders of a function after each call, and with them "
        "the record of the ε spent; answer where state is kept, on the device or in a web app. If "
        f"the folder is on a mounted volume that is kept, set {KEPT}=1"
    )
