"""The JavaScript client: latched and sealed reports, people, participation, budget and prefetch."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from deniable.shared.envelope import decode_labels
from deniable.shared.sealed_envelope import SEALED_TYPE, parse_sealed, unseal
from deniable.shared.survey.document import LOOKS, parse_document, parse_toml, render_document
from deniable.shared.survey.keys import public_hex
from tests.client.scripted import KEY, LATER, TODAY, Answer, Script, bit, document, entry, serving
from tests.eventually import PATIENCE
from tests.node import NODE
from tests.shared.test_vectors import vectors
from tests.survey_texts import YEARS, label, question, survey_text

ROOT = Path(__file__).parents[2]
OPTIONS = [f"option {number}" for number in range(256)]
WIDE_SURVEY = question("browser", "choice", "0.1", mechanism="unary", options=OPTIONS)
BEGIN = """
    import {{ Client, Policy }} from "./client/javascript/src/index.js";
    import {{ fileStorage }} from "./client/javascript/src/file-storage.js";
    const questions = {{ crashed: "bit", browser: "choice" }};
    const policy = new Policy({{ keys: ["{key}"], questions, labels: ["version"], ...{policy} }});
    const DAY = 86_400_000;
    let time = {now}, draws = 0;
    const now = () => time, tell = (value) => console.log(JSON.stringify(value ?? null));
    const draw = (count) => {{
        draws++;
        return new DataView(crypto.getRandomValues(new Uint8Array(count)).buffer);
    }};
    const storage = fileStorage({folder});
    const made = (options = {{}}) =>
        new Client("{url}", {{ policy, storage, now, draw, sendWithin: 86_400, ...options }});
    let client = made();
    const answer = async (answers, who = client, name = "app-health", options = {{}}) =>
        (await who.answer(name, answers, options)).status;
"""
Run = Callable[..., list[Any]]  # a program's lines, as JSON


@pytest.fixture
def run(script: Script, tmp_path: Path) -> Run:
    """Return a function that runs a program of JavaScript, which begins with a client."""

    def ran(program: str, **policy: object) -> list[Any]:
        begin = BEGIN.format(
            key=public_hex(KEY),
            folder=json.dumps(str(tmp_path)),
            url=script.url,
            policy=json.dumps({"per": "lifetime", "maxEpsilonPerSurvey": "8"} | policy),
            now=int(TODAY.timestamp() * 1000),
        )
        done = subprocess.run(
            [NODE, "--input-type=module", "--eval", f"{begin}\n{program}\nprocess.exit()"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.stderr == ""
        return [json.loads(line) for line in done.stdout.splitlines()]

    return ran


def daily(script: Script, **changes: Any) -> str:
    return script.publish(document(period="day", questions=bit("crashed", "0.5"), **changes))


def names(folder: Path, prefix: str) -> list[str]:
    return sorted(path.name for path in (folder / "deniable").rglob(f"{prefix}*"))


# Latched reports


def test_a_span_is_charged_and_drawn_once_and_its_report_is_sent_again(
    script: Script, run: Run, tmp_path: Path
) -> None:
    """With 256 noisy bits, two noises are equal with probability below 1e-20."""
    opens = TODAY.date().isoformat()
    script.publish(document(period="day", questions=WIDE_SURVEY, repeat_rounds=2, opens=opens))
    lines = run("""
        await client.consent(true);
        for (const option of ["option 1", "option 2", "option 3"]) {
            const before = draws;
            tell([await answer({ browser: option }), draws > before]);
            tell(await answer({ browser: option }));
            time += DAY;
        }
        tell(await client.flush(60));
    """)
    again = "already-answered"
    assert lines == [["queued", True], again, ["queued", False], again, ["queued", True], again, 0]
    sent = sorted(script.envelopes(), key=lambda envelope: envelope.round)
    assert sent[0].payload == sent[1].payload != sent[2].payload
    assert len({envelope.id for envelope in sent}) == 3
    assert names(tmp_path, "charge-") == ["charge-1", "charge-2"]
    assert len(names(tmp_path, "kept-")) == 2, "only the kept report of the present span"


LOSSES = {
    "forgotten": "await client.forget(); await client.consent(true);",
    "withdrawn": "await client.consent(false); await client.consent(true);",
    "lost": 'for (const name of await storage.names("kept-")) await storage.remove(name);',
    "clock set back": "await answer({ crashed: true }); time -= 2 * DAY;",
}


@pytest.mark.parametrize("loss", LOSSES)
def test_no_other_noise_is_drawn_for_a_span(script: Script, run: Run, loss: str) -> None:
    daily(script, repeat_rounds=20)
    lines = run(f"""
        await client.consent(true);
        tell(await answer({{ crashed: true }}));
        time += DAY;
        {LOSSES[loss]}
        const before = draws;
        tell(await answer({{ crashed: true }}));
        tell(draws === before);
    """)
    assert lines == ["queued", "already-answered", True]


# Sealed reports


def test_a_sealed_report_is_read_only_with_the_survey_s_key(script: Script, run: Run) -> None:
    key = X25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw().hex()
    for name, questions in (("short", bit("crashed", "0.5")), ("long", WIDE_SURVEY)):
        script.publish(document(name, questions=questions, sealed_to=public))
    lines = run("""
        await client.consent(true);
        tell([await answer({ crashed: true }, client, "short"),
            await answer({ browser: "option 1" }, client, "long"), await client.flush(60)]);
    """)
    assert lines == [["queued", "queued", 0]]
    opened = {}
    for post in script.posts:
        assert dict(post.headers)["Content-Type"] == SEALED_TYPE
        (sealed,) = parse_sealed(post.body)
        inside = unseal(sealed, key)
        opened[inside.survey] = len(inside.payload)
    assert opened == {
        listed["id"]: size for listed, size in zip(script.surveys, (1, 32), strict=True)
    }


@pytest.mark.parametrize(
    ("patch", "sealed_to", "reason"),
    [
        (
            "crypto.subtle.generateKey = () => Promise.reject(new Error());",
            "",
            "the survey is sealed, and WebCrypto has no X25519 here to seal reports",
        ),
        ("", "00" * 32, "the survey's document does not follow the protocol: sealed_to"),
    ],
    ids=["no X25519", "low order"],
)
def test_a_survey_that_cannot_be_sealed_is_refused(
    script: Script, run: Run, tmp_path: Path, patch: str, sealed_to: str, reason: str
) -> None:
    public = X25519PrivateKey.generate().public_key().public_bytes_raw().hex()
    text = document(questions=bit("crashed", "0.5"), sealed_to=public)
    script.publish(text.replace(public.encode(), (sealed_to or public).encode()))
    lines = run(f"""
        {patch}
        await client.consent(true);
        const {{ status, detail }} = await client.answer("app-health", {{ crashed: true }});
        tell([status, detail]);
    """)
    assert lines == [["refused", reason]]
    assert names(tmp_path, "charge-") == []


# Answers about the ended round


def test_a_survey_over_a_round_is_answered_only_about_an_ended_round(
    script: Script, run: Run
) -> None:
    asked = question("crashed", "bit", "0.5", over="any")
    script.publish(render_document(parse_toml(survey_text(asked, round="day", **YEARS))))
    lines = run("""
        await client.consent(true);
        tell(await client.answer("app-health", { crashed: true }));
        tell((await client.describe("app-health")).survey !== undefined);
        tell(await answer({ crashed: true }, client, "app-health", { of: "ended" }));
        tell(await answer({ crashed: true }, client, "app-health", { of: "ended" }));
    """)
    assert lines[0]["status"] == "refused"
    assert 'asks over "any"' in lines[0]["detail"]
    assert 'of: "ended"' in lines[0]["detail"]
    assert lines[1:] == [True, "queued", "already-answered"]


@pytest.mark.parametrize("looks", LOOKS)
def test_planned_looks_change_nothing_on_a_device(script: Script, run: Run, looks: str) -> None:
    asked = parse_toml(survey_text(bit("crashed", "0.5"), round="day", looks=looks, **YEARS))
    script.publish(render_document(asked))
    assert run("""
        await client.consent(true);
        tell(await answer({ crashed: true }));
    """) == ["queued"]


@pytest.mark.parametrize(
    ("change", "status"),
    [("2 points", "queued"), ("0.05 points", "queued"), ("99.99 points", "queued")]
    + [(text, "refused") for text in ("0 points", "1.50 points", "100 points", "± 2 points")],
)
def test_a_largest_change_is_checked_and_changes_nothing(
    script: Script, run: Run, change: str, status: str
) -> None:
    asked = survey_text(bit("crashed", "0.5"), round="day", most_change="1 points", **YEARS)
    script.publish(render_document(parse_toml(asked)).replace(b"1 points", change.encode()))
    lines = run("""
        await client.consent(true);
        tell(await answer({ crashed: true }));
    """)
    assert lines == [status]


FOLLOWS: dict[str, object] = {
    "follows": "a" * 64, "follows_rule": "quantile 0.5 of round 0", "follows_tally": "b" * 64,
}  # fmt: skip


def test_a_follow_up_survey_is_answered(script: Script, run: Run) -> None:
    asked = parse_toml(survey_text(bit("crashed", "0.5"), round="once", **(YEARS | FOLLOWS)))
    script.publish(render_document(asked))
    assert run("""
        await client.consent(true);
        tell(await answer({ crashed: true }));
    """) == ["queued"]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("follows", "A" * 64),
        ("follows_rule", "quantile 1 of round 0"),
        ("follows_tally", None),
        ("round", "week"),
    ],
)
def test_an_incomplete_follow_up_survey_is_refused(
    script: Script, run: Run, key: str, text: str | None
) -> None:
    asked = parse_toml(survey_text(bit("crashed", "0.5"), round="once", **(YEARS | FOLLOWS)))
    table = json.loads(render_document(asked))
    table["survey"] |= {key: text}
    if text is None:
        del table["survey"][key]
    script.publish(json.dumps(table).encode())
    assert run("""
        await client.consent(true);
        tell(await answer({ crashed: true }));
    """) == ["refused"]


@pytest.mark.parametrize(("step", "status"), [(5, "queued"), (20, "refused"), (4, "refused")])
def test_a_document_with_a_step_is_read_by_its_rules(
    script: Script, run: Run, step: int, status: str
) -> None:
    """The default must be absent, as in Python, so that a survey has one form."""
    asked = parse_toml(survey_text(bit("crashed", "0.5"), round="day", step=50, **YEARS))
    script.publish(render_document(asked).replace(b'"step": 50', f'"step": {step}'.encode()))
    assert run("""
        await client.consent(true);
        tell(await answer({ crashed: true }));
    """) == [status]


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"invitation": True}, "is by invitation, and this client has no valid code"),
        ({"invitation": False}, "protocol: invitation"),
        ({"invitation": True, "round": "day"}, "protocol: invitation"),
        ({"invitation": True, "sealed_to": "a" * 64}, "protocol: invitation"),
        ({"close_at": 19}, "protocol: close_at"),
        ({"close_at": 5, "step": 5}, None),
        ({"close_at": 400}, None),
    ],
    ids=str,
)
def test_invitations_and_the_closing_number_are_read_by_their_rules(
    script: Script, run: Run, tmp_path: Path, keys: dict[str, object], reason: str | None
) -> None:
    """Without a code, nothing is charged."""
    asked = parse_toml(survey_text(bit("crashed", "0.5"), round="once", **YEARS))
    table = json.loads(render_document(asked))
    table["survey"] |= keys
    script.publish(json.dumps(table).encode())
    ((status, detail),) = run("""
        await client.consent(true);
        const { status, detail } = await client.answer("app-health", { crashed: true });
        tell([status, detail]);
    """)
    assert (status, reason is None) in [("refused", False), ("queued", True)]
    assert reason is None or (reason in detail and names(tmp_path, "charge-") == [])


def test_the_same_questions_under_the_same_name_are_charged_once(script: Script, run: Run) -> None:
    daily(script)
    lines = run("""await client.consent(true); tell(await answer({ crashed: true }));""")
    daily(script, closes="2027-03-31")
    different = script.publish(document("other", period="day", questions=bit("crashed", "0.4")))
    lines += run(f"""
        time += 7_200_000;
        await client.prefetch();
        tell(await answer({{ crashed: true }}));
        tell(await answer({{ crashed: true }}, client, "{different}"));
    """)
    assert lines == ["queued", "already-answered", "queued"]


# People


def test_people_have_ledgers_and_consents_of_their_own(
    script: Script, run: Run, tmp_path: Path
) -> None:
    daily(script)
    lines = run("""
        const ann = client.person("ann"), bob = client.person("bob");
        tell([await ann.consented(), await answer({ crashed: true }, ann)]);
        await ann.consent(true);
        await bob.consent(true);
        tell([await answer({ crashed: true }, ann), await answer({ crashed: true }, ann)]);
        tell([await answer({ crashed: true }, bob), await answer({ crashed: true })]);
        tell([await client.consented(), await ann.consented()]);
    """)
    assert lines == [
        [None, "no-consent"],
        ["queued", "already-answered"],
        ["queued", "no-consent"],
        [None, True],
    ]
    assert run("tell(await client.flush(60));") == [0]
    assert len({envelope.id for envelope in script.envelopes()}) == 2, "in another process"
    stored = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert all(b"ann" not in path.read_bytes() and "ann" not in path.name for path in stored)


@pytest.mark.parametrize("end", ["ann.forget()", "ann.consent(false)"])
def test_one_person_s_end_touches_no_other(script: Script, run: Run, end: str) -> None:
    daily(script)
    lines = run(f"""
        const people = [client.person("ann"), client.person("bob"), client], [ann] = people;
        for (const person of people) {{
            await person.consent(true);
            await answer({{ crashed: true }}, person);
        }}
        tell(await {end});
        client = made();
        const again = client.person("ann");
        tell(await answer({{ crashed: true }}, again));
        await again.consent(true);
        tell(await answer({{ crashed: true }}, again));
        tell(await client.flush(60));
    """)
    assert lines == [True, "no-consent", "already-answered", 0]
    assert len(script.envelopes()) == 2


def test_forgetting_the_install_keeps_the_reports_of_others(script: Script, run: Run) -> None:
    daily(script)
    lines = run("""
        const ann = client.person("ann");
        for (const person of [ann, client]) {
            await person.consent(true);
            await answer({ crashed: true }, person);
        }
        tell([await client.forget(), await client.flush(60), await ann.consented()]);
    """)
    assert lines == [[True, 0, True]]
    assert len(script.envelopes()) == 1


def test_without_the_key_of_the_people_no_budget_is_refilled(script: Script, run: Run) -> None:
    daily(script)
    lines = run("""
        const ann = client.person("ann");
        await ann.consent(true);
        tell(await answer({ crashed: true }, ann));
        await storage.remove("people");
        tell([await ann.consent(true), await answer({ crashed: true }, ann)]);
    """)
    assert lines == ["queued", [False, "no-consent"]]


def test_a_person_s_labels_replace_those_of_the_client(script: Script, run: Run) -> None:
    text = survey_text(
        question("crashed", "bit", "0.5", over="first") + label("version", values=["1", "2"]),
        **YEARS,
    )
    script.publish(published := render_document(parse_toml(text)))
    lines = run("""
        const ann = client.person("ann", { labels: { version: "2" } });
        await ann.consent(true);
        tell([await answer({ crashed: true }, ann), await client.flush(60)]);
    """)
    assert lines == [["queued", 0]]
    (envelope,) = script.envelopes()
    assert decode_labels(parse_document(published), envelope.payload) == {"version": "2"}


def test_a_mistaken_id_throws(run: Run) -> None:
    lines = run(r"""
        for (const id of ["", "x".repeat(1_001), "\ud800", 7, undefined]) {
            try {
                tell(client.person(id).constructor.name);
            } catch (error) {
                tell(error.constructor.name);
            }
        }
        tell(client.person("x".repeat(1_000)).constructor.name);
    """)
    assert lines == [*["InvalidPerson"] * 3, *["TypeError"] * 2, "Person"]


# Participation


def test_the_rounds_that_are_answered_are_those_of_the_vectors(run: Run) -> None:
    rows = vectors("participation.json")
    assert len(rows) >= 10
    given = json.dumps([row | {"document": row["document"]} for row in rows])
    lines = run(f"""
        import {{ drawnRounds }} from "./client/javascript/src/participation.js";
        import {{ quarterOfRound, roundsOfQuarter }} from "./client/javascript/src/quarters.js";
        import {{ parseSurvey, unhex }} from "./client/javascript/src/survey.js";
        for (const row of {given}) {{
            const survey = parseSurvey(row.document);
            const budget = {{ keys: policy.keys, questions, maxEpsilonPerSurvey: row.budget }};
            const key = async () => unhex(row.key);
            const drawn = await drawnRounds(survey, row.round, new Policy(budget), key);
            const rounds = survey.period === "once" ? null : roundsOfQuarter(survey, row.round);
            tell([quarterOfRound(survey, row.round), rounds, drawn ? drawn.drawn : rounds]);
        }}
    """)
    assert lines == [[row["quarter"], row["rounds"], row["drawn"]] for row in rows]


def test_an_install_answers_exactly_what_the_budget_of_a_quarter_allows(
    script: Script, run: Run, tmp_path: Path
) -> None:
    """With ε 0.5 a week and at most ε 2 a quarter, that is 4 of 13 rounds."""
    text = survey_text(question("crashed", "bit", "0.5", over="first"), round="week", **YEARS)
    script.publish(render_document(parse_toml(text)))
    budget = {"per": "quarter", "maxEpsilonPerSurvey": "2"}
    lines = run(
        """
        time = Date.UTC(2027, 0, 4);
        await client.consent(true);
        for (let week = 0; week < 26; week++, time += 7 * DAY) {
            tell(await answer({ crashed: true }));
        }
    """,
        **budget,
    )
    for quarter in (lines[:13], lines[13:]):
        assert Counter(quarter) == {"queued": 4, "not-drawn": 9}
    assert len(names(tmp_path, "charge-")) == 8


def test_a_round_that_is_not_drawn_stores_nothing_and_asks_the_server_nothing(
    script: Script, run: Run, tmp_path: Path
) -> None:
    daily(script)
    lines = run(
        """
        await client.consent(true);
        await client.prefetch();
        const before = (await storage.names("")).length;
        let outcome = { status: "" };
        for (; outcome.status !== "not-drawn"; time += DAY) {
            for (const name of await storage.names("charge-")) await storage.remove(name);
            outcome = await client.answer("app-health", { crashed: true });
        }
        tell([outcome.detail, (await storage.names("charge-")).length]);
    """,
        per="quarter",
        maxEpsilonPerSurvey="0.5",
    )
    detail = "this install answers in 1 of the 92 rounds that begin in 2026-Q4, and not in this one"
    assert lines == [[detail, 0]]
    assert len(script.gets) <= 2


# Budget


def test_the_budget_is_that_of_the_python_client(script: Script, run: Run) -> None:
    daily(script)
    lines = run(
        """
        await client.consent(true);
        tell(await answer({ crashed: true }));
        tell(await client.budget());
        time = Date.UTC(2027, 0, 1);
        tell(await client.budget());
    """,
        per="quarter",
        maxEpsilonPerSurvey="46",
        maxEpsilon="46",
    )
    budget, renewed = lines[1:]
    assert lines[0] == "queued"
    tomorrow = (TODAY + timedelta(days=1)).date().isoformat()
    assert budget | {"text": ""} == {
        "spent": "0.5",
        "left": "45.5",
        "cap": "46",
        "renews": "2027-01-01",
        "questions": [
            {"name": "browser", "spent": "0", "left": "45.5"},
            {"name": "crashed", "spent": "0.5", "left": "45.5"},
        ],
        "surveys": [{"name": "app-health", "spent": "0.5", "left": "45.5", "nextAnswer": tomorrow}],
        "text": "",
    }
    assert budget["text"].splitlines()[0] == (
        "Spent: ε 0.5 this quarter, of at most 46; left: ε 45.5. "
        "The budget is renewed on 2027-01-01."
    )
    assert (renewed["spent"], renewed["left"]) == ("0", "46")


def test_one_survey_cannot_spend_the_whole_budget(script: Script, run: Run) -> None:
    """Nor can it after its questions are published again under the same name."""
    for name, epsilon in (("first", "1.5"), ("first", "1.4"), ("second", "1.5")):
        script.publish(document(name, questions=bit("crashed", epsilon)))
    ids = [listed["id"] for listed in script.surveys]
    lines = run(
        f"""
        await client.consent(true);
        for (const id of {json.dumps(ids)}) tell(await answer({{ crashed: true }}, client, id));
    """,
        per="lifetime",
        maxEpsilonPerSurvey="2",
    )
    assert lines == ["queued", "budget-spent", "queued"]


def test_a_list_is_fetched_in_advance_and_only_with_consent(script: Script, run: Run) -> None:
    daily(script)
    lines = run("""
        tell([await client.prefetch(), await client.consent(true), await client.prefetch()]);
        globalThis.fetch = () => Promise.reject(new TypeError("offline"));
        tell(await answer({ crashed: true }));
    """)
    assert lines == [[False, True, True], "queued"]
    assert len(script.gets) == 1


def test_a_charged_round_causes_no_further_fetch(script: Script, run: Run) -> None:
    daily(script)
    script.always = LATER
    lines = run("""
        await client.consent(true);
        for (const status of ["queued", "already-answered", "already-answered"]) {
            tell(await answer({ crashed: true }) === status);
            time += 7_200_000;
        }
    """)
    assert lines == [True, True, True]
    assert len(script.gets) == 1


def test_a_person_whose_choice_cannot_be_read_is_not_asked_again(run: Run) -> None:
    lines = run("""
        storage.get = () => Promise.reject(new Error("the disk fails"));
        tell([await client.consented(), await client.person("ann").consented()]);
    """)
    assert lines == [[False, False]]


@pytest.mark.parametrize("act", ["consent(false)", "forget()"])
@pytest.mark.parametrize("who", ["client", 'client.person("ann")'])
def test_a_withdrawal_holds_if_the_disk_fails_at_that_moment(
    script: Script, run: Run, who: str, act: str
) -> None:
    daily(script)
    script.publish(document("other", period="day", questions=bit("crashed", "0.5")))
    lines = run(f"""
        let fails = false;
        const failing = (place) => {{
            for (const name of ["get", "create", "put", "remove", "names"]) {{
                const real = place[name].bind(place);
                place[name] = async (...given) => {{
                    if (fails) throw new Error("disk");
                    return await real(...given);
                }};
            }}
            const within = place.within?.bind(place);
            if (within) place.within = (mark) => failing(within(mark));
            return place;
        }};
        failing(storage);
        client = made();
        const person = {who};
        await person.consent(true);
        tell(await answer({{ crashed: true }}, person));
        fails = true;
        tell(await person.{act});
        fails = false;
        tell(await person.consented() === true);
        tell(await answer({{ crashed: true }}, person, "other"));
        await client.flush(2);
    """)
    assert lines == ["queued", False, False, "no-consent"]
    assert [*script.envelopes()] == []


def test_a_survey_that_closes_during_an_answer_is_charged_to_its_round(
    script: Script, run: Run
) -> None:
    """The clock passes midnight after each of its first twelve readings in turn."""
    daily(script, closes=TODAY.date().isoformat())
    lines = run(
        """
        const midnight = time - time % DAY + DAY;
        for (let position = 0; position < 12; position++) {
            let left = Infinity;
            const now = () => left-- > 0 ? midnight - 1 : midnight;
            const place = storage.within(`place-${position}`);
            const one = new Client(client.server ?? URL, { policy, storage: place, now, draw });
            await one.consent(true);
            await one.prefetch();
            left = position;
            const { status, round } = await one.answer("app-health", { crashed: true });
            tell([status, Number.isInteger(round)]);
        }
    """.replace("client.server ?? URL", json.dumps(script.url))
    )
    assert {(status, known) for status, known in lines} == {("queued", True), ("closed", False)}


# The environment


@pytest.mark.parametrize("name", ["CI", "DO_NOT_TRACK", "DENIABLE_OFF"])
def test_reports_wait_while_the_environment_overrules_consent(
    script: Script, run: Run, name: str
) -> None:
    daily(script)
    lines = run(f"""
        await client.consent(true);
        tell(await answer({{ crashed: true }}));
        process.env.{name} = "1";
        tell([await client.flush(60), await made({{ sendWithin: 0 }}).flush(60)]);
        await new Promise((resolve) => setTimeout(resolve, 50));
        tell([await client.consented(), await answer({{ crashed: true }})]);
        delete process.env.{name};
        tell(await client.flush(60));
    """)
    assert lines == ["queued", [1, 1], [True, "no-consent"], 0]
    assert len(script.envelopes()) == 1


# Arms


def with_arms(script: Script, **changes: Any) -> str:
    """Publish a survey with two arms, and return what ships with an app."""
    asked = question("crashed", "bit", "0.5", over="first")
    text = survey_text(asked + label("search", arms=["control", "new"]), **YEARS | changes)
    script.publish(published := render_document(parse_toml(text)))
    return json.dumps(entry(published))


def test_without_a_list_the_arm_is_drawn_for_the_shipped_survey(script: Script, run: Run) -> None:
    """The first arm would treat half of the people unlike their label; 2 / 2^40."""
    shipped = json.dumps(with_arms(script))
    lines = run(f"""
        for (let number = 0; number < 40; number++) {{
            const person = client.person(`person ${{number}}`);
            const unasked = await person.arm("app-health", {shipped});
            await person.consent(true);
            tell([unasked, await person.arm("app-health", {shipped})]);
        }}
        await client.person("person 0").answer("app-health", {{ crashed: true }});
        tell(await client.person("person 0").arm("app-health"));
    """)
    *arms, again = lines
    assert Counter(unasked for unasked, _ in arms) == {"control": 40}
    assert {drawn for _, drawn in arms} == {"control", "new"}
    assert again == arms[0][1]


def test_the_arm_is_unknown_where_the_state_cannot_be_used(script: Script, run: Run) -> None:
    shipped = json.dumps(with_arms(script))
    lines = run(f"""
        await client.consent(true);
        tell(await client.arm("app-health", {shipped}) !== undefined);
        storage.get = () => Promise.reject(new Error("the disk fails"));
        tell(await client.arm("app-health", {shipped}) ?? null);
    """)
    assert lines == [True, None]


def test_a_shipped_survey_that_is_over_has_its_first_arm(script: Script, run: Run) -> None:
    """A key of it would expire immediately, so that each start would draw another arm."""
    shipped = json.dumps(with_arms(script))
    lines = run(f"""
        await client.consent(true);
        time += 10_000 * DAY;
        for (let number = 0; number < 40; number++) {{
            const person = client.person(`person ${{number}}`);
            await person.consent(true);
            tell(await person.arm("app-health", {shipped}));
        }}
    """)
    assert lines == ["control"] * 40


# Relays


@pytest.fixture
def relay() -> Iterator[Script]:
    with serving() as script:
        script.always = HELD
        yield script


HELD = Answer(202, b'{"held": 1}')
SEALING_KEY = X25519PrivateKey.from_private_bytes(bytes(range(32)))


def sealed(script: Script) -> None:
    public = SEALING_KEY.public_key().public_bytes_raw().hex()
    script.publish(document(questions=bit("crashed", "0.5"), sealed_to=public))


def test_only_sealed_reports_go_through_a_relay(script: Script, relay: Script, run: Run) -> None:
    """The list comes from the relay, too, so the server never sees this device's address."""
    sealed(relay)
    relay.publish(document("plain", questions=bit("crashed", "0.5")))
    lines = run(f"""
        client = made({{ relay: "{relay.url}" }});
        await client.consent(true);
        tell(await answer({{ crashed: true }}));
        tell(await client.answer("plain", {{ crashed: true }}));
        tell(await client.flush(60));
    """)
    assert (lines[0], lines[1]["status"], lines[2]) == ("queued", "refused", 0)
    assert lines[1]["detail"] == "the survey is not sealed, and this client sends through a relay"
    assert ([dict(post.headers)["Content-Type"] for post in relay.posts]) == [SEALED_TYPE]
    assert {get.path for get in relay.gets} == {"/v1/surveys"}
    assert (script.gets, script.posts) == ([], [])


def test_an_unavailable_relay_is_never_bypassed(script: Script, relay: Script, run: Run) -> None:
    """Sent directly, the report would reveal this device's address."""
    sealed(relay)
    relay.always = LATER
    lines = run(f"""
        client = made({{ relay: "{relay.url}" }});
        await client.consent(true);
        tell([await answer({{ crashed: true }}), await client.flush(0.5)]);
    """)
    assert lines == [["queued", 1]]
    assert (len(relay.posts), script.gets, script.posts) == (1, [], [])


@pytest.mark.parametrize("body", [b"", b"[]", b'{"held": "1"}', b'{"held": 2}', b"<html>"])
def test_only_a_reply_of_the_relay_settles_a_report(
    script: Script, relay: Script, run: Run, body: bytes
) -> None:
    sealed(relay)
    relay.always = Answer(202, body)
    lines = run(f"""
        client = made({{ relay: "{relay.url}" }});
        await client.consent(true);
        tell([await answer({{ crashed: true }}), await client.flush(0.5)]);
    """)
    assert lines == [["queued", 1]]


def test_a_relay_needs_an_https_address(run: Run) -> None:
    lines = run("""
        try {
            made({ relay: "http://relay.example.org" });
        } catch (error) {
            tell([error.constructor.name, error.message.includes("plain http")]);
        }
        try {
            made({ relay: "" });
        } catch (error) {
            tell(error.constructor.name);
        }
    """)
    assert lines == [["TypeError", True], "TypeError"]


# Draws shown to people, surveys that ship with a page, and invitations

CODE = "abcdefghijklmnopqrstuvwxyz"


def test_draws_reproduce_the_report_and_only_the_page_gets_them(
    script: Script, run: Run, tmp_path: Path
) -> None:
    """Each mechanism repeats its payload from the returned random bytes. No file contains them."""
    asked = {"crashed": True, "browser": "option 7"}
    script.publish(document(questions=bit("crashed", "0.5") + WIDE_SURVEY, period="once"))
    script.always = LATER
    lines = run(f"""
        import {{ MECHANISMS }} from "./client/javascript/src/mechanisms.js";
        await client.consent(true);
        const asked = {json.dumps(asked)};
        const outcome = await client.answer("app-health", asked, {{ draws: true }});
        const hex = (bytes) => Buffer.from(bytes).toString("hex");
        const {{ payloads, rolls }} = outcome.draws, repeated = [...rolls], again = [];
        const bit = ["randomized-response", 500_000_000n, 2, 1];
        for (const [name, e, size, answer] of [bit, ["unary", 100_000_000n, 256, 7]]) {{
            repeated.shift(); // of the answer that stands in for one that does not fit
            const made = MECHANISMS[name].make(e, size, []);
            again.push(hex(made.randomize(answer, () => repeated.shift())));
        }}
        const drawn = rolls.map(({{ buffer }}) => hex(new Uint8Array(buffer)));
        tell([outcome.status, JSON.stringify(outcome), payloads.map(hex), drawn, again]);
        tell((await client.answer("app-health", asked, {{ draws: true }})).draws);
        await client.flush(1);
    """)
    (status, shown, payloads, rolls, again), second = lines
    assert (status, second) == ("queued", None)
    assert set(json.loads(shown)) == {"status", "detail", "survey", "round"}
    assert payloads == again
    (sent,) = {envelope.payload for envelope in script.envelopes()}
    assert sent.hex() == "".join(again)
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for roll in rolls:
        number = str(int.from_bytes(bytes.fromhex(roll)[:8], "little"))
        assert roll.encode() not in stored
        assert bytes.fromhex(roll) not in stored
        assert number.encode() not in stored


def test_an_outcome_has_no_draws_unless_it_is_asked_for(script: Script, run: Run) -> None:
    daily(script)
    lines = run("""
        await client.consent(true);
        tell((await client.answer("app-health", { crashed: true })).draws);
    """)
    assert lines == [None]


def test_a_page_answers_its_own_survey_without_a_network(script: Script, run: Run) -> None:
    """Without the shipped survey, nothing is charged: the list is not known."""
    published = document(period="once", questions=bit("crashed", "0.5"))
    script.list_reply = LATER
    shipped = json.dumps(entry(published))
    forged = json.dumps(entry(published) | {"signature": "00" * 64})
    closed = json.dumps(entry(published, state="closed"))
    lines = run(f"""
        await client.consent(true);
        tell(await answer({{ crashed: true }}));
        for (const shipped of [{forged}, {closed}]) {{
            tell(await answer({{ crashed: true }}, client, "app-health", {{ shipped }}));
        }}
        for (const name of await storage.names("closed-")) await storage.remove(name);
        const shipped = {shipped};
        tell(await answer({{ crashed: true }}, client, "app-health", {{ shipped }}));
        tell(await client.flush(60));
    """)
    assert lines == ["unavailable", "refused", "closed", "queued", 0]
    assert len(script.posts) == 1


def invited() -> bytes:
    """Return a survey by invitation, as its document's bytes."""
    table = json.loads(document(period="once", questions=bit("crashed", "0.5")))
    table["survey"]["invitation"] = True
    return json.dumps(table).encode()


def test_an_invitation_goes_with_its_report_on_every_attempt(script: Script, run: Run) -> None:
    script.publish(invited())
    script.replies = [Answer(503)]
    refused = {"index": 0, "code": "invitation-spent", "detail": "spent"}
    settled = {"accepted": 0, "duplicates": 0, "refused": [refused]}
    script.always = Answer(body=json.dumps(settled).encode())
    lines = run(f"""
        await client.consent(true);
        for (const invitation of [undefined, "short", "{CODE[:25]}\\n", "{CODE}"]) {{
            tell(await answer({{ crashed: true }}, client, "app-health", {{ invitation }}));
        }}
        tell(await client.flush(1) > 0);
        client = made({{ settled: (name, {{ json }}) => tell([name, json.refused[0].code]) }});
        tell(await client.flush(60));
    """)
    verdict = [f"{script.surveys[0]['id']}-0", "invitation-spent"]
    assert lines == ["refused", "refused", "refused", "queued", True, verdict, 0]
    sent = [dict(post.headers) for post in script.posts]
    assert [headers.get("Deniable-Invitation") for headers in sent] == [CODE] * len(sent)
    assert not [headers for headers in sent if "Authorization" in headers]
    assert len({post.body for post in script.posts}) == 1 < len(sent)


def test_a_code_is_not_sent_for_a_survey_that_needs_none(script: Script, run: Run) -> None:
    daily(script)
    lines = run(f"""
        client = made({{ settled: (name, {{ status, json }}) => tell([status, json.accepted]) }});
        await client.consent(true);
        const invitation = "{CODE}";
        tell(await answer({{ crashed: true }}, client, "app-health", {{ invitation }}));
        await client.flush(60);
    """)
    assert lines == ["queued", [200, 1]]
    assert [
        name
        for post in script.posts
        for name, _ in post.headers
        if name in ("Authorization", "Deniable-Invitation")
    ] == []


@pytest.mark.parametrize("hook", ["() => { throw new Error(); }", "() => new Promise(() => {})"])
def test_a_report_is_done_whatever_the_app_does_with_the_reply(
    script: Script, run: Run, hook: str
) -> None:
    daily(script)
    lines = run(f"""
        client = made({{ settled: {hook} }});
        await client.consent(true);
        tell(await answer({{ crashed: true }}));
        for (let n = 0; n < 3; n++) tell(await client.flush(1));
    """)
    assert lines == ["queued", 0, 0, 0]
    assert len(script.posts) == 1
