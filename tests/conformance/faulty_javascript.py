"""Faults to plant in the JavaScript client, each with the check or rule that must catch it.

A fault replaces one piece of text in a copy of the client's source.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).resolve().parents[2] / "client" / "javascript" / "src"


class Fault(NamedTuple):
    """Replacement of text in one file of the source."""

    file: str
    before: str
    after: str


FOLLOW = """
    const { status, headers } = await head(new Incoming(socket, limit));
    if (status > 300 && status < 400) {
      return exchange(new URL(headers.get("location"), address).href, body, limit, milliseconds);
    }
    return await reply("""

# Caught by a rule of javascript_rules.mjs
RULE_FAULTS: dict[str, tuple[str, Fault]] = {
    "ignores_global_privacy_control": (
        "a_browser_s_privacy_signal_overrules_consent",
        Fault("client.js", ", browser?.globalPrivacyControl]", "]"),
    ),
    "ignores_do_not_track": (
        "a_browser_s_privacy_signal_overrules_consent",
        Fault("client.js", "browser?.doNotTrack, ", ""),
    ),
    "sends_cookies": (
        "a_request_carries_no_identity",
        Fault("browser-transport.js", 'credentials: "omit",', ""),
    ),
    "sends_validators": (
        "a_request_carries_no_identity",
        Fault("browser-transport.js", 'cache: "no-store",', ""),
    ),
    "sends_a_referrer": (
        "a_request_carries_no_identity",
        Fault("browser-transport.js", 'referrerPolicy: "no-referrer",', ""),
    ),
    "follows_redirects_in_a_browser": (
        "a_request_carries_no_identity",
        Fault("browser-transport.js", 'redirect: "error",', 'redirect: "follow",'),
    ),
    "returns_exactly_when_asked": (
        "random_time_is_added_to_a_pause_that_the_server_asks_for",
        Fault("outbox.js", "asked += uniform(", "asked += 0 * uniform("),
    ),
    "sends_without_delay": (
        "a_report_is_due_at_a_random_moment",
        Fault("outbox.js", "+ uniform(this.#within);", ";"),
    ),
    "sends_after_a_fixed_delay": (
        "a_report_is_due_at_a_random_moment",
        Fault("outbox.js", "+ uniform(this.#within);", "+ this.#within;"),
    ),
    "sends_in_the_order_of_names": (
        "waiting_reports_are_sent_in_random_order",
        Fault("outbox.js", "shuffled(await this.waiting())", "await this.waiting()"),
    ),
    "reads_replies_without_end": (
        "a_reply_that_is_too_long_settles_nothing",
        Fault("browser-transport.js", "if (size > limit) {", "if (false) {"),
    ),
    "believes_a_list_from_the_future": (
        "a_list_from_the_future_is_fetched_again",
        Fault("surveys.js", "kept.fetched <= now && now <", "now <"),
    ),
    "fetches_a_list_that_no_answer_needs": (
        "no_list_is_fetched_for_a_round_that_is_charged",
        Fault("surveys.js", "fresh ? choice : await settle(choice)", "fresh ? choice : undefined"),
    ),
    "keeps_the_consent_before_a_withdrawal": (
        "consent_after_a_withdrawal_is_another_consent",
        Fault("person.js", "withdrawn.has(mark) || !before?.given", "!before?.given"),
    ),
    "keeps_its_keys": (
        "keys_are_destroyed_once_no_report_is_accepted",
        Fault("person.js", '["key-", "kept-", "closed-"].map(', '["kept-", "closed-"].map('),
    ),
    "charges_after_a_withdrawal": (
        "consent_is_read_again_before_the_charge",
        Fault(
            "person.js",
            "if (!(await this.#consents(place))) return { ...NO_CONSENT };",
            "",
        ),
    ),
    "queues_after_a_withdrawal": (
        "consent_is_read_again_before_queueing",
        Fault(
            "person.js",
            "if (!(await this.#consents(place))) {",
            "if (false) {",
        ),
    ),
    "sends_after_a_withdrawal": (
        "consent_is_read_again_before_sending",
        Fault("outbox.js", "|| report.consent !== consent) return true;", ") return true;"),
    ),
    "counts_no_attempt_of_a_page_that_is_left": (
        "a_page_that_is_left_sends_what_it_queued_once",
        Fault("outbox.js", "(await this.#count(name, 1)) &&", ""),
    ),
    "sends_twice_when_a_page_is_left": (
        "a_page_that_is_left_sends_what_it_queued_once",
        Fault("outbox.js", "    this.#leaving.delete(name);\n    const bytes", "    const bytes"),
    ),
    "ignores_that_a_page_is_hidden": (
        "a_page_that_is_hidden_sends_what_it_queued",
        Fault("outbox.js", "document.hidden && this.#leave()", "undefined"),
    ),
    "sends_after_a_withdrawal_when_a_page_is_left": (
        "a_page_that_is_left_keeps_withdrawals_and_pauses",
        Fault("person.js", "    outbox.stay();\n", ""),
    ),
    "ignores_pauses_when_a_page_is_left": (
        "a_page_that_is_left_keeps_withdrawals_and_pauses",
        Fault("outbox.js", " || performance.now() < this.#notBefore) return;", ") return;"),
    ),
    "takes_every_mechanism_for_a_known_one": (
        "an_unknown_survey_is_refused_with_a_sentence",
        Fault("survey.js", "!Object.hasOwn(MECHANISMS, mechanism)", "false"),
    ),
}

# Caught by a check of the kit
CHECK_FAULTS: dict[str, tuple[str, Fault]] = {
    "verifies_no_signature": (
        "only_trusted_signatures_count",
        Fault("survey.js", "if (!sound) throw", "if (false) throw"),
    ),
    "trusts_every_key": (
        "only_trusted_signatures_count",
        Fault("survey.js", "if (!trusted.includes(entry.key)) {", "if (false) {"),
    ),
    "believes_any_id": (
        "an_id_is_the_hash_of_its_document",
        Fault("survey.js", "if (entry.id !== (await sha256(entry.document))) {", "if (false) {"),
    ),
    "begins_weeks_on_sunday": (
        "days_are_in_the_rounds_of_the_vectors",
        Fault("tables.js", "days: 7, shift: 3", "days: 7, shift: 4"),
    ),
    "has_no_months": (
        "days_are_in_the_rounds_of_the_vectors",
        Fault("tables.js", "  month: {", "  moon: {"),
    ),
    "never_gives_up": ("tries_are_few", Fault("tables.js", "MAX_TRIES = 10;", "MAX_TRIES = 1000;")),
    "does_not_wait_when_asked": (
        "a_requested_pause_is_kept",
        Fault("outbox.js", "this.#notBefore = performance.now() + asked;", ""),
    ),
    "believes_anybody": (
        "replies_of_others_do_not_settle_a_report",
        Fault("outbox.js", "if (!reply || !settles(reply)) return", "if (!reply) return"),
    ),
    "sends_past_the_relay": (
        "sealed_reports_leave_through_the_relay_only",
        Fault("outbox.js", "isSealed(bytes) && this.#relay || this.#server", "this.#server"),
    ),
    "asks_the_server_past_the_relay": (
        "sealed_reports_leave_through_the_relay_only",
        Fault("client.js", "through ?? address", "address"),
    ),
    "marks_every_round_alike": (
        "reports_of_a_sealed_survey_are_sealed",
        Fault("seal.js", "[4, 40]", "[4, 36]"),
    ),
    "follows_redirects": (
        "redirects_are_not_followed",
        Fault("node-transport.js", "return await reply(", FOLLOW),
    ),
    "forgets_the_ledger": (
        "forgetting_keeps_the_ledger",
        Fault("person.js", "PERSONAL = [", 'PERSONAL = ["charge-", "round-", '),
    ),
    "spends_without_end": (
        "a_spent_budget_is_never_refilled",
        Fault("ledger.js", "sum > cap", "sum < 0n"),
    ),
}


def planted(fault: Fault, folder: Path) -> Path:
    """Copy the source with one fault, and return the copy's folder."""
    copy = Path(shutil.copytree(SOURCE, folder / "src"))
    path = copy / fault.file
    text = path.read_text("utf-8")
    assert text.count(fault.before) == 1, (
        f"{fault.before!r} does not occur exactly once in {fault.file}"
    )
    path.write_text(text.replace(fault.before, fault.after), "utf-8")
    return copy
