"""An API with FastAPI that asks its users: three routes for your app to call.

    DENIABLE_SURVEY=app-health.json uvicorn --app-dir client/examples fastapi_app:app --port 5000

    GET  /consent    return whether to ask, and the text to show
    PUT  /consent    record true or false
    POST /health     take the answers from the body, which access logs omit

X-User is a placeholder for the id from your login. Never take an id from the request itself.
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
    """Return the client and the shipped survey."""
    shipped = Path(os.environ["DENIABLE_SURVEY"]).read_bytes()
    policy = Policy(keys=[json.loads(shipped)["key"]], questions=ASKED)
    server = os.environ.get("DENIABLE_SERVER", "http://127.0.0.1:8000")
    return Client(server, policy=policy, state=state_folder("deniable-fastapi-example")), shipped


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Keep one client for the process, and send the waiting reports when it exits."""
    app.state.client, app.state.shipped = opened()
    yield
    app.state.client.close()


app = FastAPI(lifespan=lifespan)


def current_person(request: Request, x_user: Annotated[str, Header()]) -> Person:
    client: Client = request.app.state.client
    return client.person(x_user)


CurrentPerson = Annotated[Person, Depends(current_person)]


@app.get("/consent")
def asked(request: Request, person: CurrentPerson) -> dict[str, Any]:
    description = request.app.state.client.describe("app-health", shipped=request.app.state.shipped)
    ask = person.consented is None and isinstance(description, Description)
    return {"ask": ask, "text": description.text if isinstance(description, Description) else ""}


@app.put("/consent")
def consent(person: CurrentPerson, agreed: Annotated[bool, Body(strict=True)]) -> dict[str, bool]:
    return {"kept": person.consent(agreed)}


@app.post("/health")
async def health(person: CurrentPerson, body: dict[str, Any]) -> dict[str, str]:
    """Pass None for a missing answer: refusing a request because of a value would reveal it."""
    answers = {name: body.get(name) for name in ASKED}
    return {"status": (await person.aanswer("app-health", **answers)).status}
