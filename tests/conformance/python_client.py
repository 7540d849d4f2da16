"""Python client behind the line protocol of README.md."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import date, datetime
from io import BytesIO
from itertools import chain, repeat
from typing import Any, cast

from deniable.client import Client, Policy, signal_safety
from deniable.client.net import surveys, uploader
from deniable.shared.envelope import envelope_id
from deniable.shared.errors import DeniableError
from deniable.shared.privacy.epsilon import Epsilon, parse_billionths
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.mechanisms import mechanisms
from deniable.shared.survey.document import parse_document, parse_toml
from deniable.shared.survey.participation import drawn_in
from tests.asked import position
from tests.eventually import PATIENCE
from tests.survey_texts import question as in_toml
from tests.survey_texts import survey_text

Message = dict[str, Any]  # JSON
A_DAY = 86_400.0


class Adapter:
    """Adapter whose methods are the operations.

    Arguments are the keys of the request, and the result is the reply.
    """

    client: Client
    now: datetime

    def init(self, **settings: Any) -> Message:
        self.now = datetime.fromisoformat(settings["now"])
        self.client = Client(
            settings["server"],
            policy=Policy(**settings["policy"]),
            state=settings["state"],
            labels=settings["labels"],
            relay=settings["relay"],
            now=lambda: self.now,
            send_within=settings["send_within"],
        )
        return {"ready": True}

    def clock(self, now: str) -> Message:
        self.now = datetime.fromisoformat(now)
        return {}

    def consent(self, given: bool) -> Message:
        return {"kept": self.client.consent(given)}

    def answer(self, survey: str, answers: Message, of: str = "today") -> Message:
        outcome = self.client.answer(survey, of=of, **answers)
        return {
            "status": outcome.status,
            "survey": outcome.survey,
            "round": outcome.round,
            "unfit": outcome.unfit,
        }

    def flush(self) -> Message:
        return {"waiting": self.client.flush(PATIENCE)}

    def forget(self) -> Message:
        return {"done": self.client.forget()}

    def randomize(self, answer: int | str, draw: str, **which: Any) -> Message:
        made, random = _mechanism(**which), BytesIO(bytes.fromhex(draw))

        def drawn(bits: int) -> int:
            some = random.read(bits // 8)
            assert bits == 8 * len(some)
            return int.from_bytes(some, "little")

        given = made.answer_at(answer) if isinstance(answer, int) else position(answer, made)
        symbol = made.randomize(given, drawn)
        assert not random.read()
        return {"payload": symbol.to_bytes(made.payload_size, "little").hex()}

    def integers(self, **which: Any) -> Message:
        return {"integers": [str(integer) for integer in _mechanism(**which).integers]}

    def question(self, document: str, draw: str) -> Message:
        survey = parse_document(document.encode())
        draws = chain([int.from_bytes(bytes.fromhex(draw), "little")], repeat(0))
        report = survey.report(dict.fromkeys(survey.costs), lambda _: next(draws))
        (asked,) = (n for n, symbol in enumerate(report.symbols) if symbol is not None)
        return {"question": asked}

    def place(self, salt: str, length: int, buckets: int, text: str) -> Message:
        asked = in_toml("it", "text", length=length, buckets=buckets, salt=salt)
        (question,) = parse_toml(survey_text(asked)).questions
        return {"placed": question.place(text)}

    def round(self, document: str, day: str) -> Message:
        survey = parse_document(document.encode())
        number = survey.round_of(date.fromisoformat(day))
        return {"round": number, "accepted_until": int(survey.taken_until(number).timestamp())}

    def participation(self, document: str, round: int, key: str, budget: str) -> Message:  # noqa: A002
        survey = parse_document(document.encode())
        if (block := survey.block_of(round)) is None:
            return {"drawn": None}
        count = block.answered(survey.round_billionths, parse_billionths(budget))
        return {"drawn": sorted(drawn_in(block, bytes.fromhex(key), survey.name, count))}

    def envelope_id(self, key: str, survey: str, round: int) -> Message:  # noqa: A002 - its key
        return {"id": envelope_id(bytes.fromhex(key), survey, round).hex()}


def _mechanism(mechanism: str, epsilon: str, size: int, integers: Sequence[str] = ()) -> Mechanism:
    named: Any = mechanisms()[mechanism]  # Any: classes with given tables have `read`
    if integers:
        return cast("Mechanism", named.read(Epsilon(epsilon), size, list(map(int, integers))))
    return cast("Mechanism", named(Epsilon(epsilon), size))


def serve(adapter: Adapter) -> None:
    surveys.FETCH_SECONDS = signal_safety.LOCK_WAIT_SECONDS = PATIENCE
    uploader.FIRST_PAUSE_SECONDS = uploader.MAX_PAUSE_SECONDS = (
        A_DAY  # a flush tries each report once
    )
    for line in sys.stdin:
        request = json.loads(line)
        operation = getattr(adapter, request.pop("op"), None)
        try:
            reply = {"unsupported": True} if operation is None else operation(**request)
        except DeniableError as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    serve(Adapter())
