"""Cost of hundreds of surveys to the server, compared with ten: pages, publishing and the list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from deniable.server.http import api
from deniable.shared.survey.document import render_document
from deniable.shared.survey.keys import sign
from tests.bench.measure import ROUNDS, Measurement, compare, seconds
from tests.server.surveys import EACH_KIND, KEY, PUBLIC, envelope, survey
from tests.server.world import World, world

MANY, FEW = 500, 10  # the public list may hold 1,000 surveys
AT_ONCE = 5  # surveys published in each round of a measurement
LINEAR = MANY / FEW  # limit for pages that list every survey
PAGES = {
    "the page that lists all": ("/", LINEAR),
    "the page of one": ("/surveys/survey-3", 3),
    "the listing for clients": ("/v1/surveys", LINEAR),
}
MAX_MS = {"/": 150.0, "publish": 50.0}
NUMBERS = count()

Document = tuple[bytes, str]  # with its signature


def measurements() -> Iterator[Measurement]:
    vars(api)["FRESH_SECONDS"] = 0.0  # exclude the wait for every intake
    with filled(MANY) as many, filled(FEW) as few:
        for name, (path, limit) in PAGES.items():
            yield compared(name, partial(get, many, path), partial(get, few, path), limit)
        yield alone("the page that lists all", partial(get, many, "/"), MAX_MS["/"])
        for name, publish in (("in process", in_process), ("over HTTP", over_http)):
            into_many = partial(publish_some, publish, many)
            into_few = partial(publish_some, publish, few)
            yield compared(f"publishing {AT_ONCE} {name}", into_many, into_few, 12)
            yield alone(f"publishing {AT_ONCE} {name}", into_many, AT_ONCE * MAX_MS["publish"])


def compared(
    name: str, ours: Callable[[], object], baseline: Callable[[], object], limit: float
) -> Measurement:
    whole = f"{name} with {MANY:,} surveys"
    note = f"compared with {FEW} surveys"
    ours()  # import libraries that are loaded on first use
    return compare(whole, ours, baseline, unit="ms", per=1e3, limit=limit, note=note)


def alone(name: str, ours: Callable[[], object], limit: float) -> Measurement:
    times = [1e3 * seconds(ours) for _ in range(ROUNDS)]
    spread = max(times) / min(times) - 1
    return Measurement(f"{name} with {MANY:,} surveys", min(times), None, "ms", limit, spread)


@dataclass
class Place:
    here: World
    analyst: dict[str, str]
    operator: dict[str, str]


@contextmanager
def filled(surveys: int) -> Iterator[Place]:
    with TemporaryDirectory() as folder, world(Path(folder) / "data") as here:
        here.store.enrol_key(PUBLIC)
        place = Place(here, here.bearer("analyst"), here.bearer("operator"))
        for _ in range(surveys):
            in_process(place, document())
        for published in here.catalogue.surveys():
            here.send(envelope(published, 1))
        yield place


def document() -> Document:
    number = next(NUMBERS)
    asked = survey(EACH_KIND, name=f"survey-{number % FEW}", title=f"Survey {number}")
    text = render_document(asked)
    return text, sign(text, KEY)


def publish_some(publish: Callable[[Place, Document], None], place: Place) -> None:
    for _ in range(AT_ONCE):
        publish(place, document())


def in_process(place: Place, signed: Document) -> None:
    place.here.catalogue.publish(*signed, PUBLIC)


def over_http(place: Place, signed: Document) -> None:
    fields = {"document": signed[0].decode(), "signature": signed[1], "key": PUBLIC}
    answer = place.here.client.post("/v1/surveys", json=fields, headers=place.operator)
    assert answer.status_code == 201, answer.text


def get(place: Place, path: str) -> None:
    answer = place.here.client.get(path, headers=place.analyst)
    assert answer.status_code == 200, answer.text
