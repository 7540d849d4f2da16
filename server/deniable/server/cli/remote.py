"""Results from another machine: asked for over HTTP, with a token, and read as strictly as sent."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request

import msgspec

from deniable.server.cli.results import TOKEN
from deniable.server.process.calling import OPENER, checked
from deniable.shared.errors import Refused, WrongUse

if TYPE_CHECKING:
    from deniable.server.results import Results

MOST_BYTES = 2**26
SECONDS = 30.0


def remote_results(server: str, survey: str, number: int | None, token: str | None) -> Results:
    """Refused if the server does, or if nobody answers there."""
    from deniable.server.results import Results

    where = f"{checked(server, '--server')}/v1/surveys/{quote(survey, safe='')}/results"
    asked = where if number is None else f"{where}?{urlencode({'round': number})}"
    headers = {"Authorization": f"Bearer {_token(token)}", "Accept": "application/json"}
    request = Request(asked, headers=headers)  # noqa: S310 # https, or this machine
    try:
        with OPENER.open(request, timeout=SECONDS) as reply:
            text = reply.read(MOST_BYTES + 1)
    except HTTPError as error:
        raise Refused(f"{server} says: {_reason(error)}") from None
    except (URLError, OSError) as error:
        raise Refused(f"no answer from {server}: {getattr(error, 'reason', error)}") from None
    try:
        return msgspec.json.decode(text, type=Results)
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
