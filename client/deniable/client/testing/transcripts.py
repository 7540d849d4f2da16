"""Everything that a device posts, from a real client and real noise, and the ε that it gives away.

Only the network and the clock are not real: a server in memory keeps each body that is posted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, time
from tempfile import TemporaryDirectory

from deniable.client.client import Client
from deniable.client.net.transport import Reply
from deniable.client.policy import Policy
from deniable.client.testing.client import Clock
from deniable.client.testing.server import FakeServer
from deniable.shared.envelope import HEADER, decode_reports, parse_envelopes
from deniable.shared.privacy.audit import ERROR, Audited, least_epsilon, telling_symbols
from deniable.shared.survey.document import Survey, parse_toml

CAP = "100000"  # of ε: the survey decides here
ROUNDS = 2


class Recorder(FakeServer):
    """Keeps what is posted, as it came."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.posted: list[bytes] = []

    def request(
        self, method: str, path: str, body: bytes | None, content_type: str | None, timeout: float
    ) -> Reply:
        if method == "POST":
            self.posted.append(body or b"")
        return super().request(method, path, body, content_type, timeout)


def transcript(survey: bytes, history: Sequence[Mapping[str, object]]) -> tuple[bytes, ...]:
    """The bodies that a new install posts, in order, when it answers so in the first rounds."""
    clock = Clock(datetime(1970, 1, 1, tzinfo=UTC))
    server = Recorder(clock)
    asked = server.publish(survey)
    policy = Policy(keys=[server.key], max_epsilon_per_round=CAP, max_epsilon=CAP)
    clock.now = datetime.combine(asked.opens, time(12), UTC)
    with (
        TemporaryDirectory(prefix="deniable-") as folder,
        Client(
            "https://deniable.invalid",
            policy=policy,
            state=folder,
            now=clock,
            transport=server,
            send_within=0.0,
        ) as client,
    ):
        client.consent(True)
        client.prefetch()
        for number, answers in enumerate(history, asked.first_round):
            clock.now = asked.round_starts(number).replace(hour=12)
            client.answer(asked.name, **answers)
            client.flush()
    return tuple(server.posted)


def audit_transcripts(
    what: str, survey: bytes, trials: int, post: Callable[..., tuple[bytes, ...]] = transcript
) -> Audited:
    """Of all that two histories make an install post which differ in the first answer to the
    survey's first question, a bit. Two events are fixed beforehand: that every report which this
    answer went into bears the symbol that tells most; and that number or sizes of the bodies are
    not those that the survey says. Each is taken either way, so a bound has a quarter of the error.
    """
    asked = parse_toml(survey.decode())
    bit = asked.questions[0]
    rest = {question.name: question.example for question in asked.questions}
    counts = [
        _times(asked, [post(survey, [{**rest, bit.name: first}, rest]) for _ in range(trials)])
        for first in (False, True)
    ]
    bounds = [
        least_epsilon(one, other, trials, ERROR / 4)
        for event in zip(*counts, strict=True)
        for one, other in (event, event[::-1])
    ]
    return Audited(what, str(bit.epsilon), max(bounds), trials)


def _times(asked: Survey, transcripts: Sequence[tuple[bytes, ...]]) -> tuple[int, int]:
    """How often either event happens."""
    telling = telling_symbols(asked.questions[0].mechanism, len(transcripts))
    size = HEADER.size + asked.report_size
    unlike = [[len(body) for body in bodies] != [size] * ROUNDS for bodies in transcripts]
    tells = [_first_symbols(asked, bodies) <= telling for bodies in transcripts]
    return sum(tells), sum(unlike)


def _first_symbols(asked: Survey, bodies: Sequence[bytes]) -> set[int | None]:
    """What the reports say of the first question in the rounds that its first answer went into."""
    return {
        decode_reports(asked, envelope)[0][0]
        for body in bodies
        for envelope in parse_envelopes(body)
        if envelope.round in asked.span_of(asked.first_round)
    }
