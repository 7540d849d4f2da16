"""Checks of consent: required first, revocable at any time; erasing refills no budget."""

from __future__ import annotations

from tests.client.scripted import (
    ANSWERS,
)
from tests.conformance.claims import check, no, published, queued, same
from tests.conformance.device import Stage


@check("consent-first")
def nothing_happens_before_consent(stage: Stage) -> None:
    published(stage)
    stage.start(consent=False)
    same("an answer before consent", stage.answer(**ANSWERS), "no-consent")
    stage.flush()
    no("requests before consent", stage.script.requests)
    no("files before consent", stage.files())


@check("withdrawal")
def withdrawal_deletes_unsent_reports(stage: Stage) -> None:
    published(stage)
    stage.start()
    queued(stage)
    stage.ask("consent", given=False)
    for path in stage.files():
        kept = path.read_bytes()
        no(f"an envelope in {path.name}", b"DNB1" in kept or b"DNB1".hex().encode() in kept)
    same("after withdrawal", stage.answer(**ANSWERS), "no-consent")
    stage.flush()
    stage.ask("consent", given=True)
    stage.flush()
    no("sent after withdrawal", stage.script.posts)


@check("forget")
def forgetting_keeps_the_ledger(stage: Stage) -> None:
    published(stage)
    stage.start()
    queued(stage)
    same("forgetting", stage.ask("forget")["done"], True)
    same("after forgetting", stage.answer(**ANSWERS), "no-consent")
    stage.restart()
    stage.ask("consent", given=True)
    same("after forgetting, and new consent", stage.answer(**ANSWERS), "already-answered")
    stage.flush()
    no("sent though forgotten", stage.script.posts)
