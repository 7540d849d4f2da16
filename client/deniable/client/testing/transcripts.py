"""Transcripts: every byte that a device posts, and a lower bound on the ε that they reveal.

The client and the noise are real. Only the network and the clock are simulated: a server in memory
keeps each posted body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, time
from tempfile import TemporaryDirectory

from deniable.client.client import Client
from deniable.client.policy import Policy
from deniable.client.testing.fakes import Clock, FakeServer
from deniable.shared.envelope import HEADER, decode_reports, parse_envelopes
from deniable.shared.privacy.verification import ERROR, Audited, least_epsilon, telling_symbols
from deniable.shared.survey.document import Survey, parse_toml

MAX_EPSILON = "100000"  # so that only the survey limits the ε
ROUNDS = 2


def transcript(survey: bytes, history: Sequence[Mapping[str, object]]) -> tuple[bytes, ...]:
    """Return the bodies that a new install posts when it gives these answers, round by round."""
    clock = Clock(datetime(1970, 1, 1, tzinfo=UTC))
    server = FakeServer(clock)
    asked = server.publish(survey)
    policy = Policy(
        keys=[server.key],
        max_epsilon_per_round=MAX_EPSILON,
        max_epsilon_per_survey=MAX_EPSILON,
        max_epsilon=MAX_EPSILON,
    )
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
            allow_ci=True,
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
    name: str, survey: bytes, trials: int, post: Callable[..., tuple[bytes, ...]] = transcript
) -> Audited:
    """Audit the transcripts of two histories that differ in the first answer to the first question.

    That question must be a bit. Two events are fixed in advance: every report made from this answer
    has the most revealing symbol; and the number or the sizes of the bodies differ from what the
    survey implies. Each event is tested in both directions, so a limit has a quarter of the error.
    """
    asked = parse_toml(survey.decode())
    bit = asked.questions[0]
    rest = {question.name: question.example for question in asked.questions}
    counts = [
        _count_events(
            asked, [post(survey, [{**rest, bit.name: first}, rest]) for _ in range(trials)]
        )
        for first in (False, True)
    ]
    bounds = [
        least_epsilon(one, other, trials, ERROR / 4)
        for event in zip(*counts, strict=True)
        for one, other in (event, event[::-1])
    ]
    return Audited(name, str(bit.epsilon), max(bounds), trials)


def _count_events(asked: Survey, transcripts: Sequence[tuple[bytes, ...]]) -> tuple[int, int]:
    telling = telling_symbols(asked.questions[0].mechanism, len(transcripts))
    size = HEADER.size + asked.report_size
    wrong_sizes = [[len(body) for body in bodies] != [size] * ROUNDS for bodies in transcripts]
    revealing = [_first_symbols(asked, bodies) <= telling for bodies in transcripts]
    return sum(revealing), sum(wrong_sizes)


def _first_symbols(asked: Survey, bodies: Sequence[bytes]) -> set[int | None]:
    """Return the symbols of the first question in the reports made from its first answer."""
    return {
        decode_reports(asked, envelope)[0][0]
        for body in bodies
        for envelope in parse_envelopes(body)
        if envelope.round in asked.span_of(asked.first_round)
    }
