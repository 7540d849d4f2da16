"""Checks that every value is answered in the same way, and that none is stored."""

from __future__ import annotations

from collections import Counter

from tests.conformance.claims import check, no, published, same
from tests.conformance.device import Stage


@check("every-value")
def every_answer_looks_alike(stage: Stage) -> None:
    published(stage, period="day", questions=QUESTIONS_WITH_OTHER + WORD)
    stage.policy |= {"max_epsilon": "60", "max_epsilon_per_round": "60"}
    stage.start()
    misfits: list[object] = [None, "no", -1, 7.5, 1e300, True, [], {}, "x" * 10_000]
    for value in misfits:
        stage.later(days=1)
        answers = {"crashed": value, "minutes": value, "browser": value, "word": value}
        same(f"answering {str(value)[:9]}", stage.answer(**answers), "queued")
    stage.flush()
    size = sum(BYTES.get(kind, 0) for kind in stage.claims.kinds)
    same("sizes", {len(post.body) for post in stage.script.posts}, {64 + size})
    same("reports", len(stage.script.posts), len(misfits))


BYTES = {"bit": 1, "number": 1, "choice": 1, "text": 3}  # of a symbol
WORD = """
[[question]]
name = "word"
kind = "text"
over = "first"
length = 4
buckets = 1024
mechanism = "grouped-k-randomized-response"
epsilon = "0.1"
"""
QUESTIONS_WITH_OTHER = """
[[question]]
name = "crashed"
kind = "bit"
over = "first"
epsilon = "0.1"

[[question]]
name = "minutes"
kind = "number"
over = "first"
low = -1.5
high = 120
mechanism = "local-laplace"
grid = 64
epsilon = "0.1"

[[question]]
name = "browser"
kind = "choice"
over = "first"
options = ["firefox", "chrome", "other"]
other = "other"
epsilon = "0.1"
"""


@check("true-to-the-table")
def reports_with_hardly_any_lies_are_true(stage: Stage) -> None:
    """At ε 20 a lie has a probability of at most 1e-8, so a false alarm has one of 1e-6."""
    published(stage, questions=HARDLY_LYING, period="day")
    stage.policy |= {"max_epsilon": "480", "max_epsilon_per_round": "60"}
    stage.start()
    for _ in range(8):
        stage.later(days=1)
        answers = {"crashed": True, "minutes": 1e300, "browser": "opera"}
        same("answering", stage.answer(**answers), "queued")
    stage.flush()
    symbols = {"bit": "01", "number": "01", "choice": "02"}
    wanted = "".join(symbol for kind, symbol in symbols.items() if kind in stage.claims.kinds)
    same("symbols", {sent.payload.hex() for sent in stage.script.envelopes()}, {wanted})


OPTIONS = ", ".join(f'"option {number}"' for number in range(300))
HARDLY_LYING = QUESTIONS_WITH_OTHER.replace('"0.1"', '"20"').replace("grid = 64", "grid = 1")
PADDED = (
    HARDLY_LYING.replace('"firefox", "chrome"', OPTIONS) + 'mechanism = "k-randomized-response"'
)


@check("one-question", "ask", "number", "choice")
def one_question_is_drawn_for_every_answer(stage: Stage) -> None:
    """The bit's answer never fits.

    With probability below 1e-9, some question is not drawn in 54 rounds; with one below 1e-20, more
    than four reports are lies.
    """
    published(stage, questions=PADDED, period="day", asks_one=True)
    stage.policy |= {"max_epsilon": "1080", "max_epsilon_per_round": "20"}
    stage.start()
    for _ in range(ENOUGH_ROUNDS):
        stage.later(days=1)
        answers = {"crashed": None, "minutes": 1e300, "browser": "opera"}
        same("answering", stage.answer(**answers), "queued")
    stage.flush()
    sent = [envelope.payload for envelope in stage.script.envelopes()]
    same("bytes of each report", {len(payload) for payload in sent}, {1 + 2})
    same("questions", {payload[0] for payload in sent}, {0, 1, 2})
    told = Counter("that" if payload in TRUE_PAYLOADS else payload.hex() for payload in sent)
    no("reports of something else", told if told["that"] < ENOUGH_ROUNDS - 4 else None)


ENOUGH_ROUNDS = 54
# The question's number, its symbol, and zeros. The symbol of option 300 has two bytes.
TRUE_PAYLOADS = [bytes.fromhex(digits) for digits in ("000000", "000100", "010100", "022c01")]


@check("no-trace")
def answers_reach_no_disk_and_no_log(stage: Stage) -> None:
    published(stage)
    stage.start()
    needle = "needle-in-a-haystack"
    queued_ = stage.answer(crashed=needle, minutes=needle, browser=needle)
    same("answering", queued_, "queued")
    stage.answer(crashed=True, minutes=1, browser="x", undeclared=needle)
    for path in stage.files():
        no(f"an answer in {path.name}", needle.encode() in path.read_bytes())
    stage.kill()
    no("an answer on standard error", needle in stage.complaints)
