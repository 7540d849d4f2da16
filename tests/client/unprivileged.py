"""A daemon that gives up its rights: `python -m tests.client.unprivileged FOLDER KEY`."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from deniable.client import Client, Policy
from tests.client.scripted import Clock, Listing, bit, document

NO_ONE = 65534
SURVEY = document(period="day", questions=bit("crashed", "0.5"))


def every_call(client: Client) -> dict[str, Callable[[], object]]:
    """Every public call, `close` last."""
    ann = client.person("ann")
    return {
        "consented": lambda: client.consented,
        "consent": lambda: client.consent(True),
        "person consented": lambda: ann.consented,
        "person consent": lambda: ann.consent(True),
        "answer": lambda: client.answer("app-health", crashed=True).status,
        "person answer": lambda: ann.answer("app-health", crashed=True).status,
        "aanswer": lambda: asyncio.run(client.aanswer("app-health", crashed=True)).status,
        "arm": lambda: client.arm("app-health"),
        "ask": lambda: client.ask("app-health"),
        "flush": lambda: client.flush(0.05),
        "prefetch": lambda: client.prefetch(0.05),
        "sent": lambda: type(client.sent()).__name__,
        "budget": lambda: type(client.budget()).__name__,
        "describe": lambda: type(client.describe("app-health")).__name__,
        "survey": lambda: type(client.survey("app-health")).__name__,
        "person forget": ann.forget,
        "forget": client.forget,
        "close": client.close,
    }


def device(folder: Path, key: str) -> Client:
    policy, network = Policy(keys=[key], per="lifetime"), Listing(SURVEY)
    return Client(
        "https://a.example", policy=policy, state=folder, now=Clock(), transport=network, timeout=1
    )


def main(folder: str, key: str) -> None:
    """Print what each call returns, or raises, once the folder belongs to another user."""
    client = device(Path(folder), key)
    client.consent(True)
    assert client.answer("app-health", crashed=True).status == "queued"
    for path in (Path(folder), *Path(folder).iterdir()):
        path.chmod(0o700 if os.geteuid() == 0 else 0)
    if os.geteuid() == 0:
        os.setuid(NO_ONE)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    thread = threading.Thread(target=int)
    with suppress(RuntimeError):
        thread.start()
        raise AssertionError("the system still starts threads")
    returned = {}
    for name, call in every_call(client).items():
        try:
            returned[name] = call()
        except Exception as error:  # noqa: BLE001 - printed
            returned[name] = repr(error)
    print(json.dumps(returned))


if __name__ == "__main__":
    main(*sys.argv[1:])
