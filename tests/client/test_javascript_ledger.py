"""The JavaScript client's ledger: quarters, caps, what a charge reads, and damage."""

from __future__ import annotations

import json
import subprocess
from datetime import date, timedelta
from pathlib import Path

from deniable.shared.survey.document import parse_document as read
from deniable.shared.survey.document import quarter_of
from tests.client.scripted import document
from tests.eventually import PATIENCE
from tests.node import NODE

ROOT = Path(__file__).parents[2]
BEGIN = """
    import { Policy } from "./client/javascript/src/index.js";
    import { charge, isAnswered, readLedger } from "./client/javascript/src/ledger.js";
    const records = new Map(), reads = [];
    const storage = {
      get: async (name) => { reads.push(name); return structuredClone(records.get(name)); },
      create: async (name, value) =>
        !records.has(name) && Boolean(records.set(name, structuredClone(value))),
      put: async (name, value) => void records.set(name, value),
      remove: async (name) => void records.delete(name),
      names: async (prefix) => [...records.keys()].filter((name) => name.startsWith(prefix)),
    };
    const policy = (caps = {}) => new Policy({
      keys: ["0".repeat(64)], questions: { crashed: "bit" }, maxEpsilonPerSurvey: "8", ...caps,
    });
    const own = { survey: "a".repeat(64), name: "health", key: "k", total: 10n ** 9n };
    const costs = new Map([["crashed", 10n ** 9n]]);
    const spend = async (round, quarter, rest = {}, caps = policy()) => {
      const refusal = await charge(storage, caps, { ...own, costs, round, quarter, ...rest });
      return refusal?.status ?? "charged";
    };
    const print = (value) => console.log(JSON.stringify(value));
"""


def printed(program: str) -> list[object]:
    done = subprocess.run(
        [NODE, "--input-type=module", "--eval", BEGIN + program],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_charge_reads_as_little_after_400_charges_as_after_20() -> None:
    """Every second charge is of another quarter, so that both last records are needed."""
    counts = printed("""
        const roomy = policy({ maxEpsilon: "1000", maxEpsilonPerSurvey: "1000" });
        for (let round = 1; round <= 400; round++) {
          await spend(round, `2026-Q${3 + round % 2}`, {}, roomy);
          if (![20, 100, 400].includes(round)) continue;
          reads.length = 0;
          await spend(1000 + round, "2026-Q4", {}, roomy);
          print(reads.length);
        }
        const { spent, life } = await readLedger(storage, "2026-Q4");
        print([String(spent.total), String(life.total)]);
    """)
    assert counts == [3, 3, 3, ["203000000000", "403000000000"]]


def test_caps_hold_in_each_quarter_and_renew() -> None:
    statuses = ["charged"] * 8 + ["budget-spent"]
    assert printed("""
        for (const quarter of ["2026-Q4", "2027-Q1"]) {
          const statuses = [];
          for (let round = 1; round <= 9; round++) {
            const name = `survey-${round}`;
            statuses.push(await spend(round, quarter, { name, survey: quarter + name }));
          }
          print(statuses);
        }
        print(await spend(10, "2026-Q4", { name: "late" }));
    """) == [statuses, statuses, "budget-spent"]


def test_caps_of_a_lifetime_never_renew() -> None:
    assert printed("""
        const ever = policy({ per: "lifetime", maxEpsilon: "2" });
        for (const year of [2026, 2027, 2028]) print(await spend(year, `${year}-Q4`, {}, ever));
    """) == ["charged", "charged", "budget-spent"]


def test_one_name_and_key_has_a_budget_of_its_own() -> None:
    """Another key under the same name, and another name, keep theirs."""
    assert printed("""
        const caps = policy({ maxEpsilonPerSurvey: "1" });
        print(await spend(1, "2026-Q4", {}, caps));
        print(await spend(2, "2026-Q4", {}, caps));
        print(await spend(2, "2026-Q4", { key: "other" }, caps));
        print(await spend(3, "2026-Q4", { name: "other" }, caps));
        print(await spend(4, "2027-Q1", {}, caps));
    """) == ["charged", "budget-spent", "charged", "charged", "charged"]


def test_a_round_is_charged_once_whatever_its_quarter() -> None:
    """A refused round is not marked as answered."""
    assert printed("""
        print(await spend(1, "2026-Q4"));
        print(await spend(1, "2027-Q1"));
        print(await spend(2, "2026-Q4", { total: 8n * 10n ** 9n }));
        for (const round of [1, 2]) print(await isAnswered(storage, own.survey, round));
    """) == ["charged", "already-answered", "budget-spent", True, False]


def test_simultaneous_charges_stay_within_the_cap() -> None:
    assert printed("""
        const rounds = Array.from({ length: 12 }, (_, round) => spend(round, "2026-Q4"));
        print((await Promise.all(rounds)).sort());
        const same = Array.from({ length: 5 }, () => spend(1, "2027-Q1", { survey: "b" }));
        print((await Promise.all(same)).sort());
        const { spent } = await readLedger(storage, "2026-Q4");
        print([String(spent.total), (await storage.names("round-")).length]);
    """) == [
        ["budget-spent"] * 4 + ["charged"] * 8,
        ["already-answered"] * 4 + ["charged"],
        ["8000000000", 9],
    ]  # fmt: skip


def test_a_changed_or_missing_record_stops_all_charges() -> None:
    """Only the records that contain sums in use are read, but none may be missing."""
    assert printed("""
        for (let round = 1; round <= 3; round++) await spend(round, `2026-Q${round}`);
        const attempt = (quarter) =>
          spend(9, quarter).catch((error) => `${error.constructor.name}: ${error.message}`);
        const kept = structuredClone(records.get("charge-3"));
        records.get("charge-3").life.total = "1";
        print(await attempt("2026-Q4"));
        records.set("charge-3", kept);
        records.get("charge-1").spent.total = "1";
        print(await attempt("2026-Q1"));
        print(await attempt("2026-Q3"));
        records.delete("charge-2");
        print(await attempt("2026-Q4"));
        print(records.has(`round-${"a".repeat(64)}-9`));
    """) == [DAMAGED, DAMAGED, "charged", DAMAGED, True]


DAMAGED = "Unusable: the ledger is damaged, so the ε already spent is unknown; nothing was charged"


def test_both_clients_charge_a_round_to_the_same_quarter() -> None:
    """Spans of daily rounds begin on the day on which the survey opens; `once` is charged today."""
    days = [date(2025, 1, 31), *(date(2026, 1 + 3 * n, 1) - timedelta(n) for n in range(4))]
    spans = {"period": "day", "repeat_rounds": 700}
    surveys = [
        read(document(opens=str(day), closes="2028-12-31", **given))
        for day in days
        for given in ({"period": "once"}, spans)
    ]
    pairs = [(survey, day) for survey in surveys for day in days if day >= survey.opens]
    expected = [survey.charged_quarter(survey.first_round, day) for survey, day in pairs]
    moments = [[survey.period, f"{survey.opens}", f"{day}T23:59:59Z"] for survey, day in pairs]
    assert (
        printed(f"""
        import {{ chargedQuarter }} from "./client/javascript/src/quarters.js";
        for (const [period, opens, today] of {json.dumps(moments)}) {{
          const survey = {{ period, spanOf: () => 0, beginOf: () => Date.parse(opens) }};
          print(chargedQuarter(survey, 0, Date.parse(today)));
        }}
    """)
        == expected
    )
    assert [q for (survey, day), q in zip(pairs, expected, strict=True) if day == days[-1]] == [
        quarter for day in days for quarter in ("2026-Q3", max(quarter_of(day), "2026-Q2"))
    ]
