"""Python client with one planted fault, to prove that the checks can fail: faulty.py FAULT."""

from __future__ import annotations

import builtins
import json
import math
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from deniable.client import pipeline
from deniable.client.net import delivery, exchange, survey_list, surveys, transport, uploader
from deniable.client.policy import Policy
from deniable.client.state import drafts, outbox, survey_cache
from deniable.client.state.ledger import Ledger
from deniable.shared import envelope, sealed_envelope
from deniable.shared.errors import StoreUnusable
from deniable.shared.privacy.mechanisms import OptimalTable, optimal_table
from deniable.shared.survey import document, keys, questions
from deniable.shared.survey.document import PERIODS, Report, Survey
from deniable.shared.survey.kinds.base import NO_LABELS
from deniable.shared.survey.kinds.choice import Bit
from deniable.shared.survey.reader import Reader
from tests.conformance import bits_client
from tests.conformance.python_client import Adapter, Message, serve

FAULTS: dict[str, Callable[[], Adapter | None]] = {}
CAUGHT_BY: dict[str, str] = {}


def fault(check: str) -> Callable[[Callable[[], Adapter | None]], Callable[[], Adapter | None]]:
    """Register a function that plants a fault; `check` must then fail."""

    def planted(plant: Callable[[], Adapter | None]) -> Callable[[], Adapter | None]:
        FAULTS[plant.__name__], CAUGHT_BY[plant.__name__] = plant, check
        return plant

    return planted


def put(owner: Any, name: str, value: Any) -> None:  # Any: values of every type
    assert hasattr(owner, name) or hasattr(builtins, name), f"{owner} has no {name}"
    setattr(owner, name, value)


# Consent


@fault("nothing_happens_before_consent")
def assumes_consent() -> Adapter:
    class Assuming(Adapter):
        def init(self, **settings: Any) -> Message:
            reply = super().init(**settings)
            self.client.consent(True)
            return reply

    return Assuming()


@fault("withdrawal_deletes_unsent_reports")
def keeps_what_was_withdrawn() -> None:
    put(outbox, "withdraw_all", lambda *_: None)


class Forgetful(Adapter):
    def forget(self) -> Message:
        shutil.rmtree(self.state)
        return {"done": True}

    def init(self, **settings: Any) -> Message:
        self.state = settings["state"]
        return super().init(**settings)


@fault("forgetting_keeps_the_ledger")
def forgets_the_ledger() -> Adapter:
    return Forgetful()


# Surveys


@fault("only_trusted_signatures_count")
def verifies_no_signature() -> None:
    put(survey_list, "verify", lambda *_: None)


@fault("only_trusted_signatures_count")
def trusts_the_key_it_fetched() -> None:
    verify = keys.verify
    put(survey_list, "verify", lambda text, signature, key, _: verify(text, signature, key, [key]))


@fault("an_id_is_the_hash_of_its_document")
def believes_any_id() -> None:
    class Anything(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __ne__(self, other: object) -> bool:
            return False

    put(document, "survey_id", lambda _: Anything())


@fault("bad_documents_are_refused")
def believes_any_integers() -> None:
    def parsed(text: bytes) -> Survey:
        table = json.loads(text)
        for question in table["question"]:
            question.pop("integers", None)
        return document._parse(table)

    put(document, "parse_document", parsed)


@fault("crossed_questions_are_answered_and_bad_pairs_refused")
def believes_any_pairs() -> None:
    def read(reader: Reader, _: object) -> Any:  # Any: JSON
        return tuple(map(tuple, reader.optional("cross", list) or []))

    put(document, "read_cross", read)


@fault("crossed_questions_are_answered_and_bad_pairs_refused")
def knows_no_pairs() -> None:
    put(document, "read_cross", lambda *_: ())


@fault("display_texts_change_nothing")
def knows_no_words() -> None:
    put(questions, "read_labels", lambda *_: NO_LABELS)


@fault("texts_may_be_in_several_languages")
def believes_any_languages() -> None:
    def read(reader: Reader) -> Any:  # Any: JSON
        return tuple(reader.optional("languages", list) or ())

    put(document, "read_languages", read)


@fault("bad_documents_are_refused")
def takes_a_key_twice() -> None:
    put(document, "_no_repeats", dict)


TABLE = "a_table_is_proved_before_it_is_used"


@fault(TABLE)
def believes_that_rows_are_whole() -> None:
    put(OptimalTable, "is_whole", lambda _: True)


@fault(TABLE)
def believes_that_a_table_is_private() -> None:
    put(OptimalTable, "is_private", lambda _: True)


@fault(TABLE)
def compares_ratios_as_floats() -> None:
    def is_private(table: OptimalTable) -> bool:
        larger, smaller = table.worst_ratio()
        return larger / smaller <= math.exp(float(table.epsilon))

    put(OptimalTable, "is_private", is_private)


@fault(TABLE)
def believes_that_values_ascend() -> None:
    put(optimal_table, "sorted", list)


@fault(TABLE)
def believes_that_a_table_is_unbiased() -> None:
    put(OptimalTable, "_biases", lambda _: [])


@fault(TABLE)
def reads_integers_in_any_way() -> None:
    def parsed(text: bytes) -> Survey:
        table = json.loads(text)
        for question in table["question"]:
            with suppress(KeyError, ValueError):
                question["integers"] = [str(int(integer)) for integer in question["integers"]]
        return document._parse(table)

    put(document, "parse_document", parsed)


@fault("a_survey_is_looked_up_by_name_id_and_day")
def answers_on_any_day() -> None:
    put(Survey, "is_open", lambda *_: True)


@fault("a_closed_survey_stays_closed")
def reopens() -> None:
    put(survey_cache, "_remember_closed", lambda *_: None)


@fault("a_report_over_a_whole_round_is_sent_after_the_round")
def sends_within_the_round() -> None:
    put(Survey, "redraws", property(lambda _: False))


@fault("a_report_over_a_whole_round_is_sent_after_the_round")
def reports_the_last_answer_only() -> None:
    put(Bit, "replaces", lambda *_: 1)


@fault("the_ended_round_is_answered_once")
def answers_for_today_only() -> None:
    put(surveys.When, "round_of", lambda when, survey: survey.round_to_answer(when.today))


@fault("only_the_complete_list_is_requested")
def asks_for_the_one_it_means() -> Adapter:
    class Asking(Adapter):
        def answer(self, survey: str, answers: Message, of: str = "today") -> Message:
            carrier = transport.HttpTransport(self.client._server)
            carrier.request("GET", f"/v1/surveys/{survey}", None, None, 5)
            return super().answer(survey, answers, of)

    return Asking()


# Policy and ledger


@fault("no_survey_exceeds_the_cap_of_a_round")
def caps_no_round() -> None:
    put(Policy, "round_cap", 10**12)


@fault("kinds_and_names_are_checked_before_values")
def believes_any_kind() -> None:
    put(Policy, "mismatch", lambda *_: None)


@fault("a_spent_budget_is_never_refilled")
def caps_nothing() -> None:
    put(Ledger, "obstacle", lambda *_: None)


@fault("some_rounds_of_each_quarter_are_answered")
def answers_every_round_until_the_budget_is_spent() -> Any:  # Any: the adapter of another client
    put(bits_client, "drawn_rounds", lambda _, rounds, *__: set(rounds))
    return bits_client.Adapter()


@fault("a_question_has_one_budget_in_all_surveys")
def caps_no_question() -> None:
    put(Policy, "question_cap", None)


@fault("asking_one_question_charges_the_largest_epsilon")
def charges_the_sum() -> None:
    put(Survey, "round_billionths", property(lambda survey: sum(survey.costs.values())))


@fault("asking_one_question_charges_every_name")
def charges_one_name() -> None:
    costs = vars(Survey)["costs"].func

    def first(survey: Survey) -> dict[str, int]:
        every = costs(survey)
        return dict([*every.items()][: 1 if survey.asks_one else None])

    put(Survey, "costs", property(first))


class Scratch(Adapter):
    """State in memory, which a kill deletes."""

    def init(self, **settings: Any) -> Message:
        self.kept = Path(settings["state"])
        settings["state"] = tempfile.mkdtemp(dir=self.kept.parent)
        self.scratch = Path(settings["state"])
        if self.kept.exists():
            shutil.copytree(self.kept, self.scratch, dirs_exist_ok=True)
        return super().init(**settings)


@fault("a_round_is_answered_once")
def keeps_no_ledger() -> Adapter:
    return Scratch()


@fault("two_processes_answer_a_round_once")
def has_a_ledger_for_each_process() -> Adapter:
    class Own(Adapter):
        def init(self, **settings: Any) -> Message:
            settings["state"] += f"/{os.getpid()}"
            return super().init(**settings)

    return Own()


@fault("a_kill_while_sending_never_makes_another_noise")
def charges_once_it_is_sent() -> Adapter:
    class Late(Scratch):
        def consent(self, given: bool) -> Message:
            return self._kept(super().consent(given))

        def flush(self) -> Message:
            return self._kept(super().flush())

        def _kept(self, reply: Message) -> Message:
            shutil.copytree(self.scratch, self.kept, dirs_exist_ok=True)
            return reply

    return Late()


@fault("a_kill_at_any_moment_never_makes_two_noises")
def draws_again_on_each_start() -> Adapter:
    return Scratch()


class FreshStart(Forgetful):
    def consent(self, given: bool) -> Message:
        if not super().consent(given)["kept"]:
            shutil.rmtree(self.state)
        return super().consent(given)


@fault("a_damaged_state_means_no_report")
def begins_again_after_damage() -> Adapter:
    return FreshStart()


@fault("a_changed_state_means_no_report")
def begins_again_after_a_change() -> Adapter:
    return FreshStart()


@fault("days_are_in_the_rounds_of_the_vectors")
def begins_weeks_on_sunday() -> None:
    week = PERIODS["week"]
    shifted = replace(week, round_of=lambda day: week.round_of(day + timedelta(days=1)))
    PERIODS["week"] = shifted


# Envelopes and sending


@fault("envelopes_follow_the_protocol")
def is_a_day_behind() -> None:
    round_of = Survey.round_of
    put(Survey, "round_of", lambda survey, day: round_of(survey, day - timedelta(days=1)))


@fault("envelopes_follow_the_protocol")
def has_one_id_for_all_rounds() -> None:
    put(envelope, "envelope_id", lambda key, *_: key[:16])


@fault("a_retry_sends_the_same_bytes")
def changes_the_id_of_a_retry() -> None:
    request = transport.HttpTransport.request

    def changed(self: Any, method: str, path: str, body: bytes | None, *rest: Any) -> Any:
        body = body and body[:40] + os.urandom(16) + body[56:]
        return request(self, method, path, body, *rest)

    put(transport.HttpTransport, "request", changed)


@fault("tries_are_few")
def never_gives_up() -> None:
    few = f"tries < {outbox.MAX_TRIES}"
    put(outbox, "_READY", tuple(ready.replace(few, "tries < 1000") for ready in outbox._READY))
    put(outbox, "MAX_TRIES", 1000)


@fault("a_requested_pause_is_kept")
def does_not_wait_when_asked() -> None:
    put(delivery, "retry_after_seconds", lambda _: 0.0)


@fault("late_reports_are_given_up")
def never_finds_it_too_late() -> None:
    put(outbox, "delete_expired", lambda *_: None)


@fault("replies_of_the_server_settle_a_report")
def is_never_content() -> None:
    put(uploader, "delivery_result", lambda _: delivery.DeliveryResult(None))


@fault("replies_of_others_do_not_settle_a_report")
def believes_anybody() -> None:
    put(uploader, "delivery_result", lambda _: delivery.DeliveryResult("accepted"))


@fault("requests_reveal_nothing_about_their_sender")
def sends_a_validator() -> None:
    exchange.HEADERS["If-None-Match"] = '"1"'


@fault("redirects_are_not_followed")
def follows_redirects() -> None:
    request = transport.HttpTransport.request

    def followed(self: Any, method: str, path: str, *rest: Any) -> Any:
        reply = request(self, method, path, *rest)
        return request(self, method, "/elsewhere", *rest) if 300 <= reply.status < 400 else reply

    put(transport.HttpTransport, "request", followed)


@fault("plain_http_stays_on_this_machine")
def speaks_plain_http_to_anyone() -> None:
    put(transport, "is_loopback", lambda _: True)


# Answers


@fault("every_answer_looks_alike")
def refuses_what_does_not_fit() -> None:
    report = Survey.report

    def fitting(survey: Survey, answers: Any, draw: Any) -> Any:
        made = report(survey, answers, draw)
        if made.unfit:
            raise StoreUnusable("an answer does not fit")
        return made

    put(Survey, "report", fitting)


@fault("reports_with_hardly_any_lies_are_true")
def draws_ones_only() -> Adapter:
    class Ones(Adapter):
        def init(self, **settings: Any) -> Message:
            reply = super().init(**settings)
            self.client._pipeline._draw = lambda _: 0
            return reply

    return Ones()


ONE = "one_question_is_drawn_for_every_answer"


@fault(ONE)
def always_asks_the_first() -> None:
    report = Survey.report

    def first(survey: Survey, answers: Any, draw: Any) -> Report:
        draws = [0] if survey.asks_one else []
        return report(survey, answers, lambda bits: draws.pop() if draws else draw(bits))

    put(Survey, "report", first)


@fault(ONE)
def asks_what_was_answered() -> None:
    report = Survey.report

    def fitting(survey: Survey, answers: Any, draw: Any) -> Report:
        while True:
            made = report(survey, answers, draw)
            pairs = zip(survey.questions, made.symbols, strict=True)
            if any(
                symbol is not None and question.name not in made.unfit for question, symbol in pairs
            ):
                return made

    put(Survey, "report", fitting)


@fault(ONE)
def reports_another_question_s_symbol() -> None:
    encode = envelope.encode_report
    put(envelope, "encode_report", lambda *of: bytes([(encode(*of)[0] + 1) % 3]) + encode(*of)[1:])


@fault("answers_reach_no_disk_and_no_log")
def writes_a_log() -> Adapter:
    class Logging(Adapter):
        def answer(self, survey: str, answers: Message, of: str = "today") -> Message:
            print(answers, file=sys.stderr)
            return super().answer(survey, answers, of)

    return Logging()


# Vectors


@fault("the_same_random_bytes_give_the_same_symbol")
def reads_draws_from_the_other_end() -> Adapter:
    class Reversed(Adapter):
        def randomize(self, answer: int | str, draw: str, **which: Any) -> Message:
            return super().randomize(answer, bytes.fromhex(draw)[::-1].hex(), **which)

    return Reversed()


@fault("the_same_random_bytes_draw_the_same_question")
def draws_a_remainder() -> Adapter:
    class Remainder(Adapter):
        def question(self, document: str, draw: str) -> Message:
            number = int.from_bytes(bytes.fromhex(draw), "little")
            return {"question": number % len(json.loads(document)["question"])}

    return Remainder()


@fault("sealed_reports_leave_through_the_relay_only")
def sends_past_the_relay() -> Adapter:
    class Direct(Adapter):
        def init(self, **settings: Any) -> Message:
            return super().init(**settings | {"relay": None})

    return Direct()


@fault("reports_of_a_sealed_survey_are_sealed")
def leaves_the_seal_out() -> None:
    put(drafts, "pack_envelope", lambda survey, envelope: envelope.pack())


@fault("reports_of_a_sealed_survey_are_sealed")
def seals_to_a_key_of_its_own() -> None:
    own = keys.public_hex(X25519PrivateKey.generate())
    put(drafts, "pack_envelope", lambda survey, made: sealed_envelope.seal(made, own).pack())


@fault("reports_of_a_sealed_survey_are_sealed")
def marks_every_round_alike() -> None:
    real = sealed_envelope.mark_of
    put(sealed_envelope, "mark_of", lambda public, survey, _: real(public, survey, 0))


@fault("reports_of_a_sealed_survey_are_sealed")
def pads_to_another_size() -> None:
    put(sealed_envelope, "SIZES", sealed_envelope.SIZES[1:])


@fault("a_survey_that_needs_what_is_not_supported_is_refused")
def uses_a_mechanism_that_it_knows() -> None:
    parse = document.parse_document

    def parsed(text: bytes) -> Survey:
        return parse(text.replace(b"hadamard-response", b"randomized-response"))

    put(document, "parse_document", parsed)


@fault("a_new_epoch_sends_an_acknowledged_report_again")
def ignores_epochs() -> None:
    put(outbox, "send_again", lambda *_: None)


@fault("an_epoch_needs_the_signature_of_the_survey_s_key")
def trusts_every_epoch() -> None:
    put(survey_list, "is_signed_epoch", lambda *_: True)


@fault("reports_begin_with_their_labels")
def sends_labels_in_another_order() -> Adapter:
    class Swapping(Adapter):
        def init(self, **settings: Any) -> Message:
            labels = settings["labels"]
            settings["labels"] = dict(zip(labels, reversed(labels.values()), strict=True))
            return super().init(**settings)

    return Swapping()


@fault("an_arm_is_drawn_once")
def draws_an_arm_for_each_report() -> None:
    put(pipeline, "drawn_arm", lambda _, label: random.choice(label.arms))


@fault("rounds_of_a_span_share_one_report")
def draws_in_each_round_of_a_span() -> None:
    put(Survey, "span_of", lambda _, round_: range(round_, round_ + 1))


@fault("integers_equal_those_of_the_vectors")
def rounds_integers_down() -> Adapter:
    class Down(Adapter):
        def integers(self, **which: Any) -> Message:
            return {"integers": [str(int(n) - 1) for n in super().integers(**which)["integers"]]}

    return Down()


@fault("texts_are_hashed_into_the_buckets_of_the_vectors")
def trims_texts() -> Adapter:
    class Trimming(Adapter):
        def place(self, salt: str, length: int, buckets: int, text: str) -> Message:
            return super().place(salt, length, buckets, text.strip())

    return Trimming()


@fault("rounds_are_drawn_as_in_the_vectors")
def draws_for_the_survey_of_another_name() -> Adapter:
    class Renamed(Adapter):
        def participation(self, document: str, round: int, key: str, budget: str) -> Message:  # noqa: A002
            other = document.replace('"name": "', '"name": "my-', 1)
            return super().participation(other, round, key, budget)

    return Renamed()


@fault("envelope_ids_equal_those_of_the_vectors")
def counts_rounds_big_endian() -> Adapter:
    class Swapped(Adapter):
        def envelope_id(self, key: str, survey: str, round: int) -> Message:  # noqa: A002
            swapped = int.from_bytes(round.to_bytes(4, "little"), "big")
            return super().envelope_id(key, survey, swapped)

    return Swapped()


if __name__ == "__main__":
    serve(FAULTS[sys.argv[1]]() or Adapter())
