"""Environment of an app: the folder for the client's state, and whether that state survives."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
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
SYSTEM = Path("/")
CONTAINER_FILES = (".dockerenv", "run/.containerenv")
CONTAINER_VARIABLE = "KUBERNETES_SERVICE_HOST"
# Filesystems of a container's own layer, and of memory; a volume is on another one.
THROWAWAY = frozenset(["overlay", "overlayfs", "fuse.fuse-overlayfs", "aufs", "tmpfs", "ramfs"])
EMPTY_DIR = "kubernetes.io~empty-dir"  # a volume that Kubernetes deletes with the pod


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def state_folder(
    app: str, platform: str = sys.platform, environment: Mapping[str, str] = os.environ
) -> Path:
    r"""Return the usual state folder for an app of this name.

    The folder records the ε spent, so it is one that the system neither syncs nor empties. Where
    the system knows no home folder, the path begins with "~", and a client there is `unavailable`.

    Windows      %LOCALAPPDATA%\my-app          or ~\AppData\Local\my-app
    macOS        ~/Library/Application Support/my-app
    elsewhere    $XDG_STATE_HOME/my-app          or ~/.local/state/my-app
    """
    if not app or app.startswith(".") or any(sign in app for sign in '/\\:*?"<>|\0'):
        raise InvalidPolicy(f'state_folder: give the app a plain name, like "my-app"; got {app!r}')
    home = Path("~")
    with suppress(RuntimeError):
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


def ephemeral_reason(
    folder: Path, environment: Mapping[str, str] = os.environ, system: Path | None = None
) -> str | None:
    """Return the reason why state cannot be kept in a folder, and the fix; None if it is kept.

    If the ledger is lost with a function or a container, the next one has a full budget, so the
    client refuses to start. The variable KEPT overrides this for a folder that is kept.
    """
    if environment.get(KEPT) == "1":
        return None
    if providers := [name for variable, name in PROVIDERS.items() if environment.get(variable)]:
        return (
            f"state: {providers[0]} deletes the folders of a function after each call, and with "
            "them the record of the ε spent; answer where state is kept, on the device or in a web "
            f"app. If the folder is on a mounted volume that is kept, set {KEPT}=1"
        )
    system = SYSTEM if system is None else system
    marked = any(os.access(system / name, os.F_OK) for name in CONTAINER_FILES)
    if (marked or environment.get(CONTAINER_VARIABLE)) and _is_throwaway(folder, system):
        return (
            f"state: {folder} is deleted together with this container, and with it the record of "
            "the ε spent; mount a volume for the folder, or answer on the device. If the folder is "
            f"kept, set {KEPT}=1"
        )
    return None


def _is_throwaway(folder: Path, system: Path) -> bool:
    """Return whether a folder's mount goes with its container; False if that cannot be read."""
    try:
        lines = (system / "proc" / "self" / "mountinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    path = Path(os.path.realpath(folder))
    nearest, throwaway = -1, False
    for line in lines:  # number, parent, device, root, mount point, ... - filesystem, source
        own, _, other = line.partition(" - ")
        root, place = own.split(" ")[3:5]
        mounted = Path(place.replace("\\040", " "))
        if path.is_relative_to(mounted) and len(mounted.parts) >= nearest:
            nearest = len(mounted.parts)
            throwaway = other.split(" ")[0] in THROWAWAY or EMPTY_DIR in root
    return throwaway
