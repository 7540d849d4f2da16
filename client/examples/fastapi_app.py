"""The same for an API, with FastAPI: three routes that an app of yours calls.

    DENIABLE_SURVEY=app-health.json uvicorn --app-dir client/examples fastapi_app:app --port 5000

    GET  /consent    whether to ask, and with which words
    PUT  /consent    true or false
    POST /health     the answers, in the body: logs of requests leave bodies out

X-User stands for the id that your login knows; never take it from what a request claims.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import Body, Depends, FastAPI, Header, Request

from deniable.client import Client, Description, Person, Policy, state_folder

ASKED = {"crashed": "bit", "minutes": "number", "browser": "choice"}


def opened() -> tuple[Client, bytes]:
    """The client, and the survey as it ships."""
    shipped = Path(os.environ["DENIABLE_SURVEY"]).read_bytes()
    policy = Policy(keys=[json.loads(shipped)["key"]], questions=ASKED)
    server = os.environ.get("DENIABLE_SERVER", "http://127.0.0.1:8000")
    return Client(server, policy=policy, state=state_folder("deniable-fastapi-example")), shipped


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One client for the process; what still waits when it ends is sent, or is on disk."""
    app.state.client, app.state.shipped = opened()
    yield
    app.state.client.close()


app = FastAPI(lifespan=lifespan)


def current_person(request: Request, x_user: Annotated[str, Header()]) -> Person:
    client: Client = request.app.state.client
    return client.person(x_user)


Whoever = Annotated[Person, Depends(current_person)]


@app.get("/consent")
def asked(request: Request, person: Whoever) -> dict[str, Any]:
    told = request.app.state.client.describe("app-health", shipped=request.app.state.shipped)
    ask = person.consented is None and isinstance(told, Description)
    return {"ask": ask, "text": told.text if isinstance(told, Description) else ""}


@app.put("/consent")
def consent(person: Whoever, agreed: Annotated[bool, Body(strict=True)]) -> dict[str, bool]:
    return {"kept": person.consent(agreed)}


@app.post("/health")
async def health(person: Whoever, said: dict[str, Any]) -> dict[str, str]:
    """A missing answer is None: a request that were refused for a value would show the value."""
    answers = {name: said.get(name) for name in ASKED}
    return {"status": (await person.aanswer("app-health", **answers)).status}
