"""Cost of sealing: on the device, on the server, and per request to a server or a relay.

HPKE needs at least two curve operations to seal and one to open.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from deniable.shared.envelope import Envelope
from deniable.shared.sealed_envelope import SEALED_TYPE, seal, unseal
from deniable.shared.survey.keys import create_sealing_key, public_hex
from tests.bench.ingest import bare, upload
from tests.bench.load import Make, ask, post
from tests.bench.measure import ROUNDS, Measurement, compare
from tests.command import deniable
from tests.server.relays import relaying
from tests.server.world import serving
from tests.survey_texts import ALWAYS, bit, survey_text

TIMES, REQUESTS, CONNECTIONS = 500, 1_600, 64
KEY = X25519PrivateKey.generate()
PUBLIC = public_hex(KEY)


def measurements() -> Iterator[Measurement]:
    envelope = Envelope("ab" * 32, 1, bytes(16), 1, b"\1")
    sealed, other = seal(envelope, PUBLIC), X25519PrivateKey.generate().public_key()
    yield alone("a device seals a report", lambda: seal(envelope, PUBLIC), other, 2)
    yield alone("a server opens a report", lambda: unseal(sealed, KEY), other, 1)
    with TemporaryDirectory() as name:
        yield from requests(Path(name))


def alone(
    name: str, ours: Callable[[], object], other: X25519PublicKey, exchanges: int
) -> Measurement:
    def repeat(call: Callable[[], object], times: int) -> None:
        for _ in range(times):
            call()

    return compare(
        name,
        partial(repeat, ours, TIMES),
        partial(repeat, lambda: KEY.exchange(other), TIMES * exchanges),
        unit="µs",
        per=1e6 / TIMES,
        limit=3,
        note=f"compared with {exchanges} of X25519's own operation",
    )


def requests(folder: Path) -> Iterator[Measurement]:
    """Measure requests to a server and to a relay.

    The server's sealed survey is compared with an unsealed one. The relay is compared with a bare
    route that does not use the disk.
    """
    data, key = folder / "data", folder / "sealing.pem"
    public = public_hex(create_sealing_key(str(key)))
    ids = [
        published(folder, data, name=name, **sealed)
        for name, sealed in (("plain", {}), ("sealed", {"sealed_to": public}))
    ]
    with serving(data, more=["--sealing-key", str(key)]) as server:
        load = partial(ask, server.port, CONNECTIONS, REQUESTS // CONNECTIONS)
        yield compare(
            f"{CONNECTIONS} connections upload sealed envelopes of 1",
            partial(load, sealed_upload(ids[1], public)),
            partial(load, upload(ids[0])),
            unit="µs",
            per=1e6 / REQUESTS,
            limit=2,
            note="a request; compared with the same without a seal",
        )
    with (
        serving(data, more=["--sealing-key", str(key)]) as server,
        bare() as other,
        relaying(folder, server.url, batch=10**9, more=["--most", "100000"]) as relay,
    ):
        each = REQUESTS // CONNECTIONS
        yield compare(
            f"{CONNECTIONS} connections send to a relay",
            partial(ask, relay.port, CONNECTIONS, each, sealed_upload(ids[1], public)),
            partial(ask, other, CONNECTIONS, each, partial(post, "/", bytes(320))),
            unit="µs",
            per=1e6 / REQUESTS,
            limit=8,
            note="a request, held on disk; compared with a bare Flask route in threads",
        )


def published(folder: Path, data: Path, **changes: object) -> str:
    """Publish a survey and return its id."""
    file, key = folder / "survey.toml", folder / "key.pem"
    file.write_text(survey_text(bit(), round="once", **{**ALWAYS, **changes}))
    if not key.exists():
        deniable("keys", "new", str(key))
    made = deniable("survey", "publish", str(file), "--key", str(key), "--data", str(data))
    return str(made["id"])


def sealed_upload(survey: str, public: str) -> Make:
    """Return an upload that was sealed in advance, because devices do the sealing."""
    made = [
        seal(Envelope(survey, 0, os.urandom(16), 1, b"\1"), public).pack()
        for _ in range(ROUNDS * REQUESTS)
    ]
    header = f"Content-Type: {SEALED_TYPE}"
    return lambda: post("/v1/envelopes", made.pop(), header)
