"""Checks of the ledger: the app's caps, one report per round, and no second noise after a crash."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.client.scripted import ANSWERS, QUESTIONS, Answer, bit
from tests.conformance.claims import check, no, one_bit, published, queued, same
from tests.conformance.device import Stage
from tests.eventually import eventually

KILLS, RACES, MOST = 6, 40, 36


@check("round-cap")
def no_survey_exceeds_the_cap_of_a_round(stage: Stage) -> None:
    one_bit(stage, "dear", epsilon="2.000000001")
    stage.start()
    same("over the round's cap", stage.answer("dear", crashed=True), "refused")


@check("names-first")
def kinds_and_names_are_checked_before_values(stage: Stage) -> None:
    """A bit's name that the app declares as another kind, or not at all, is refused."""
    one_bit(stage, "as-bit", name="browser")
    published(stage, questions=QUESTIONS + bit("froze", "0.1"))
    stage.policy["questions"] |= {"froze": "bit"}
    stage.start()
    same("a question of another kind", stage.answer("as-bit", browser="x"), "refused")
    same("a survey in part", stage.answer(**ANSWERS), "refused")
    undeclared = stage.answer("app-health", **ANSWERS, froze=True, secret=1)
    no("a name that is not declared", undeclared == "queued")
    stage.flush()
    no("reports of what should be refused", stage.script.envelopes())


@check("total-cap")
def a_spent_budget_is_never_refilled(stage: Stage) -> None:
    for number in range(4):
        one_bit(stage, f"survey-{number}", epsilon="2", name=["crashed", "other"][number % 2])
    stage.policy |= {"questions": {"crashed": "bit", "other": "bit"}, "max_epsilon": "5"}
    stage.start()
    same("the first", stage.answer("survey-0", crashed=True), "queued")
    stage.restart()
    same("the second", stage.answer("survey-1", other=True), "queued")
    stage.restart()
    same("beyond the cap", stage.answer("survey-2", crashed=True), "budget-spent")


@check("participation", "participation")
def some_rounds_of_each_quarter_are_answered(stage: Stage) -> None:
    """At ε 0.3 of 2, exactly six of the thirteen weeks that begin in each quarter of 2027."""
    closes = "2027-06-30"
    published(stage, bit("crashed", "0.3"), period="week", opens="2027-01-04", closes=closes)
    caps = {"max_epsilon": "2", "max_epsilon_per_survey": "2"}
    stage.policy |= {"per": "quarter", **caps}
    stage.now = datetime(2027, 1, 4, 12, tzinfo=UTC)
    stage.start()
    for quarter in ("the first quarter", "the second quarter"):
        statuses = []
        for _ in range(13):
            statuses.append(stage.answer(crashed=True))
            stage.restart()
            again = {"queued": "already-answered"}.get(statuses[-1], "not-drawn")
            same(f"once more in {quarter}", stage.answer(crashed=False), again)
            stage.flush()
            stage.later(days=7)
        same(quarter, Counter(statuses), Counter({"queued": 6, "not-drawn": 7}))
    same("reports", len(stage.script.envelopes()), 12)


@check("question-cap")
def a_question_has_one_budget_in_all_surveys(stage: Stage) -> None:
    one_bit(stage, "one")
    one_bit(stage, "same-again")
    stage.policy |= {"max_epsilon_per_question": "1.5"}
    stage.start()
    same("the first", stage.answer("one", crashed=True), "queued")
    same("asked again", stage.answer("same-again", crashed=True), "budget-spent")


@check("one-question-charge", "ask")
def asking_one_question_charges_the_largest_epsilon(stage: Stage) -> None:
    """Six rounds of ε 0.1, 0.2 or 0.3 cost 1.8, whichever question is drawn."""
    asks_one(stage, "0.1", "0.2", "0.3")
    one_bit(stage, "more", epsilon="0.200000001", name="other")
    one_bit(stage, "rest", epsilon="0.2", name="other")
    stage.policy |= {"max_epsilon_per_round": "0.3", "max_epsilon": "2"}
    six_rounds(stage)
    stage.later(days=1)
    same("a seventh round", stage.answer("any", **THREE), "budget-spent")
    same("over what is left", stage.answer("more", other=True), "budget-spent")
    same("all that is left", stage.answer("rest", other=True), "queued")


@check("one-question-charge", "ask")
def asking_one_question_charges_every_name(stage: Stage) -> None:
    """Otherwise the drawn question would determine whether there is a next report."""
    asks_one(stage, "0.1", "0.1", "0.1")
    for name in [*THREE, "other"]:
        one_bit(stage, name, epsilon="0.1", name=name)
    stage.policy |= {"max_epsilon_per_question": "0.6"}
    six_rounds(stage)
    for name in THREE:
        same(f"{name} once more", stage.answer(name, **{name: True}), "budget-spent")
    same("another", stage.answer("other", other=True), "queued")


THREE = {"one": True, "two": False, "three": None}


def asks_one(stage: Stage, *epsilons: str) -> None:
    questions = "".join(bit(name, epsilon) for name, epsilon in zip(THREE, epsilons, strict=True))
    published(stage, name="any", questions=questions, period="day", asks_one=True)
    stage.policy |= {"questions": dict.fromkeys([*THREE, "other"], "bit")}


def six_rounds(stage: Stage) -> None:
    stage.start()
    for _ in range(6):
        stage.later(days=1)
        same("a round", stage.answer("any", **THREE), "queued")
    stage.restart()


@check("one-report")
def a_round_is_answered_once(stage: Stage) -> None:
    published(stage)
    stage.start()
    queued(stage)
    same("the same round", stage.answer(**ANSWERS), "already-answered")
    stage.restart()
    same("the same round after a kill", stage.answer(**ANSWERS), "already-answered")
    stage.later(days=31)
    queued(stage)
    stage.flush()
    same("rounds", sorted(envelope.round for envelope in stage.script.envelopes()), [683, 684])


@check("one-ledger")
def two_processes_answer_a_round_once(stage: Stage) -> None:
    """A client may refuse a second process, but may not give it a separate budget."""
    names = [f"survey-{number}" for number in range(RACES)]
    for name in names:
        one_bit(stage, name, epsilon="0.1")
    stage.policy |= {"max_epsilon": f"{MOST / 10}"}
    both = [stage.start(), stage.start(consent=False)]
    both[1].say("consent", given=True)
    both[1].reply()
    for name in names:
        for device in both:
            device.say("answer", survey=name, answers={"crashed": True})
    statuses = [device.reply().get("status") for _ in names for device in both]
    same("surveys that fit the budget", statuses.count("queued"), MOST)
    stage.flush()
    sent = stage.script.envelopes()
    no("surveys with two reports", len({envelope.id for envelope in sent}) < len(sent))


@check("intact-ledger")
def a_damaged_state_means_no_report(stage: Stage) -> None:
    damaged(stage, lambda content: b"{" + content[7:])


@check("intact-ledger")
def a_changed_state_means_no_report(stage: Stage) -> None:
    """Replace every digit 5 of ε 0.5 by a 4, wherever it is stored."""
    damaged(stage, lambda content: content.replace(b"5", b"4"))


def damaged(stage: Stage, damage: Callable[[bytes], bytes]) -> None:
    published(stage, period="day")
    stage.start()
    queued(stage)
    stage.flush()
    stage.kill()
    for path in stage.files():
        path.write_bytes(damage(path.read_bytes()))
    stage.now += timedelta(days=1)
    stage.start(consent=False)
    stage.ask("consent", given=True)
    no("a report after damage", stage.answer(**ANSWERS) == "queued")


def one_noise(stage: Stage) -> None:
    """Check that all bytes sent for a round are equal: two noises would reveal the answer."""
    seen: dict[int, set[bytes]] = {}
    for envelope in stage.script.envelopes():
        seen.setdefault(envelope.round, set()).add(envelope.pack())
    no("rounds with two noises", [round_ for round_, sent in seen.items() if len(sent) > 1])


WIDE = "".join(bit(f"bit_{number}", "0.001") for number in range(70))
SAME_WIDE = {f"bit_{number}": True for number in range(70)}


def wide(stage: Stage, **how: Any) -> None:
    """Publish a survey whose reports hardly ever repeat by chance."""
    published(stage, questions=WIDE, **how)
    stage.policy |= {"questions": dict.fromkeys(SAME_WIDE, "bit")}


@check("charge-first")
def a_kill_while_sending_never_makes_another_noise(stage: Stage) -> None:
    """With 70 noisy bits, two noises are equal with probability below 1e-20."""
    wide(stage)
    held = stage.script.always
    stage.script.always = Answer(hold=threading.Event())
    device = stage.start()
    device.say("answer", survey="app-health", answers=SAME_WIDE)
    device.say("flush")
    eventually(lambda: stage.script.posts)
    stage.script.always = held
    stage.restart()
    no("noise after a kill", stage.answer(**SAME_WIDE) == "queued")
    stage.flush()
    same("sent again", len(stage.script.posts), 2)
    one_noise(stage)


@check("charge-first")
def a_kill_at_any_moment_never_makes_two_noises(stage: Stage) -> None:
    wide(stage, period="day")
    stage.policy |= {"max_epsilon": "9"}
    stage.start()
    took = _seconds(stage)
    for _ in range(KILLS):
        stage.later(days=1)
        stage.devices[-1].say("answer", survey="app-health", answers=SAME_WIDE)
        stage.devices[-1].say("flush")
        time.sleep(random.uniform(0, 1.5 * took))
        stage.restart()
        stage.ask("consent", given=True)
        stage.answer(**SAME_WIDE)
        stage.flush()
    stage.restart()
    stage.ask("consent", given=True)
    no("another noise after all that", stage.answer(**SAME_WIDE) == "queued")
    one_noise(stage)
    no("not one report arrived", not stage.script.posts)


def _seconds(stage: Stage) -> float:
    """Return the seconds that an answer and a flush take."""
    begin = time.monotonic()
    stage.answer(**SAME_WIDE)
    stage.flush()
    return time.monotonic() - begin
