"""What every view of the server reaches: the store, the writer, the clock, and what they carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from flask import Flask, current_app

from deniable.server.http.app_tokens import AppTokens
from deniable.server.http.messages import HttpError
from deniable.server.http.sessions import Sessions
from deniable.server.intake.limits import Limits
from deniable.server.intake.metrics import Metrics
from deniable.server.intake.writer import Writer
from deniable.server.results.annotations import ReferenceValues
from deniable.server.results.estimate_cache import EstimateCache
from deniable.server.results.forgery import ForgeryMonitor
from deniable.server.store import PublishedSurvey, Store
from deniable.server.surveys.catalogue import Catalogue, UnknownSurvey
from deniable.server.surveys.clock import Clock

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

EXTENSION = "deniable"


@dataclass(frozen=True)
class Parts:
    store: Store
    catalogue: Catalogue
    writer: Writer
    clock: Clock
    metrics: Metrics
    forgery: ForgeryMonitor
    sessions: Sessions
    app_tokens: AppTokens
    limits: Limits | None  # None: nobody is limited
    known: ReferenceValues = field(default_factory=ReferenceValues)
    estimates: EstimateCache = field(default_factory=EstimateCache)
    # What opens sealed reports, by the marks of the public keys
    sealing: Mapping[bytes, X25519PrivateKey] = field(default_factory=dict, repr=False)


def parts() -> Parts:
    """The parts of the application that handles this request."""
    return parts_of(current_app)


def parts_of(app: Flask) -> Parts:
    return cast(Parts, app.extensions[EXTENSION])


def asked_for(text: str) -> PublishedSurvey:
    """The survey that an address under /v1 names, which is not repeated where there is none."""
    try:
        return parts().catalogue.find(text)
    except UnknownSurvey:
        raise HttpError(
            404, "no survey has this name or id, or several ids begin with it; see GET /v1/surveys"
        ) from None
