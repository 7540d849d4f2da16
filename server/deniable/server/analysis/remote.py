"""Results and the register from another machine: asked for over HTTP, read as strictly as sent."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request

import msgspec

from deniable.server.process.calling import OPENER, checked
from deniable.server.process.settings import TOKEN
from deniable.shared.errors import Refused, WrongUse

if TYPE_CHECKING:
    from deniable.server.results import Results
    from deniable.server.store import RegisterEntry

Document = TypeVar("Document", bound=msgspec.Struct)
MOST_BYTES = 2**26
SECONDS = 30.0


def remote_results(
    server: str, survey: str, asked_for: Mapping[str, int], token: str | None
) -> Results:
    """Refused if the server does, or if nobody answers there."""
    from deniable.server.results import Results

    where = f"{checked(server, '--server')}/v1/surveys/{quote(survey, safe='')}/results"
    asked = f"{where}?{urlencode(asked_for)}" if asked_for else where
    return _fetched(server, asked, Results, {"Authorization": f"Bearer {_token(token)}"})


def remote_register(server: str) -> list[RegisterEntry]:
    """All of it, answer by answer."""
    from deniable.server.http.register import Register
    from deniable.server.store import RegisterEntry

    entries: list[RegisterEntry] = []
    while True:
        asked = f"{checked(server, '--server')}/v1/register?{urlencode({'after': len(entries)})}"
        found = _fetched(server, asked, Register, {})
        entries += [RegisterEntry(**msgspec.structs.asdict(each)) for each in found.entries]
        if not (found.more and found.entries):
            return entries


def _fetched(server: str, asked: str, kind: type[Document], headers: Mapping[str, str]) -> Document:
    request = Request(asked, headers={"Accept": "application/json", **headers})  # noqa: S310 # https, or this machine
    try:
        with OPENER.open(request, timeout=SECONDS) as reply:
            text = reply.read(MOST_BYTES + 1)
    except HTTPError as error:
        raise Refused(f"{server} says: {_reason(error)}") from None
    except (URLError, OSError) as error:
        raise Refused(f"no answer from {server}: {getattr(error, 'reason', error)}") from None
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        raise Refused(f"{server} answers what this version cannot read; is it deniable?") from None


def _token(given: str | None) -> str:
    token = given or os.environ.get(TOKEN)
    if not token:
        raise WrongUse(f"results over HTTP need an analyst's token: set {TOKEN}, or give --token")
    return token.strip()


def _reason(error: HTTPError) -> str:
    try:
        problem = json.loads(error.read(MOST_BYTES))
        return str(problem.get("detail") or problem["title"])
    except (ValueError, KeyError, AttributeError, OSError):
        return f"HTTP {error.code}"
