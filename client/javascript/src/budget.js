/** A person's budget: the ε spent and left, and when the next answers are possible. */

import { decimal, iso, shown } from "./description.js";
import { beginOfQuarter, quarterOf, quarterOfRound } from "./quarters.js";

/**
 * @typedef {import("./ledger.js").Storage} Storage
 * @typedef {import("./policy.js").Policy} Policy
 * @typedef {import("./surveys.js").Found} Found
 * @typedef {import("./surveys.js").Survey} Survey
 * @typedef {(survey: Survey, round: number) => ReturnType<typeof import("./participation.js").drawnRounds>} Drawn the rounds of a quarter that are answered
 * @typedef {(found: Found, round: number) => import("./ledger.js").Charge} ChargeOf
 * @typedef {Pick<typeof import("./ledger.js"), "isAnswered" | "overspent" | "readLedger">} LedgerReader
 * @typedef {import("./person.js").Place} Place
 * @typedef {{drawnRounds: typeof import("./participation.js").drawnRounds, keyOf: (place: Place) => Promise<Uint8Array<ArrayBuffer>>, chargeOf: (found: Found, round: number, now: number) => import("./ledger.js").Charge}} Rounds
 * @typedef {{name: string, spent: string, left: string}} QuestionBudget
 * @typedef {QuestionBudget & {nextAnswer: string | null}} SurveyBudget `nextAnswer`: the first day on which an answer can be charged; null if there is none
 * @typedef {{spent: string, left: string, cap: string, renews: string | null, questions: QuestionBudget[], surveys: SurveyBudget[], text: string}} Budget
 */

/**
 * Return the budget under this policy. If an earlier policy allowed more, nothing is left.
 * @param {import("./person.js").Core} core @param {LedgerReader & Rounds} ledger and the draw of rounds
 * @param {Storage} [storage] of a person; absent if none is known
 * @param {Place} [consented] absent without consent
 * @returns {Promise<Budget>}
 */
export async function budgetOf(core, ledger, storage, consented) {
  const { policy, surveys: known } = core, now = core.now();
  const names = consented ? await known.names() : [];
  const choices = await Promise.all(
    names.map((name) => known.kept(name, (survey) => policy.refusal(survey))),
  );
  const listed = choices.flatMap((choice) => "status" in choice ? [] : choice); // the open ones
  /** @type {Drawn} */
  const drawnIn = (survey, round) =>
    ledger.drawnRounds(survey, round, policy, () => ledger.keyOf(/** @type {Place} */ (consented)));
  /** @type {ChargeOf} */
  const chargeOf = (found, round) => ledger.chargeOf(found, round, now);
  const renews = policy.per === "quarter";
  const sums = storage && await ledger.readLedger(storage, quarterOf(now));
  const spent = renews ? sums?.spent : sums?.life, total = spent?.total ?? 0n;
  const left = rest(policy.totalCap, total);
  /** @param {string} name @param {bigint | undefined} used @param {bigint} cap */
  const row = (name, used = 0n, cap) => {
    const own = rest(cap, used);
    return { name: shown(name), spent: decimal(used), left: decimal(own < left ? own : left) };
  };
  const asked = new Set([...spent?.questions.keys() ?? [], ...policy.questions.keys()]);
  const questions = [...asked].sort().map((name) =>
    row(name, spent?.questions.get(name), policy.questionCap)
  );
  const surveys = storage === undefined ? [] : await Promise.all(listed.map(async (found) => {
    const used = spent?.surveys.get(`${found.survey.name} ${found.key}`);
    const rounds = await answeredRounds(found.survey, found.survey.roundOf(now), drawnIn);
    const next = await firstFree(ledger, storage, policy, rounds, found, chargeOf);
    const { opens, beginOf } = found.survey;
    const nextAnswer = next === undefined ? null : iso(Math.max(now, beginOf(next), opens));
    return { ...row(found.survey.name, used, policy.surveyCap), nextAnswer };
  }));
  const told = {
    spent: decimal(total),
    left: decimal(left),
    cap: decimal(policy.totalCap),
    renews: renews ? iso(beginOfQuarter(now, 1)) : null,
    questions,
    surveys,
  };
  return { ...told, text: textOf(told) };
}

/**
 * Return the first of these rounds that is not charged and fits the caps.
 * @param {LedgerReader} ledger @param {Storage} storage @param {Policy} policy
 * @param {number[]} rounds @param {Found} found @param {ChargeOf} chargeOf
 */
async function firstFree(ledger, storage, policy, rounds, found, chargeOf) {
  for (const round of rounds) {
    const charge = chargeOf(found, round), sums = await ledger.readLedger(storage, charge.quarter);
    const ids = [found.id, ...found.same];
    const charged = await Promise.all(ids.map((id) => ledger.isAnswered(storage, id, round)));
    if (!charged.includes(true) && !ledger.overspent(sums, charge, policy)) return round;
  }
  return undefined;
}

/** @param {bigint} cap @param {bigint} spent */
const rest = (cap, spent) => spent < cap ? cap - spent : 0n;

/** @param {Omit<Budget, "text">} budget */
function textOf({ spent, left, cap, renews, questions, surveys }) {
  const over = renews ? `this quarter, of at most ${cap}` : "over all surveys and rounds";
  const renewed = renews ? ` The budget is renewed on ${renews}.` : "";
  return [
    `Spent: ε ${spent} ${over}; left: ε ${left}.${renewed}`,
    ...questions.map((row) => `    ${row.name}: ε ${row.spent} spent, ε ${row.left} left`),
    ...surveys.map((row) =>
      `    survey ${row.name}: ε ${row.spent} spent, ε ${row.left} left; ` +
      (row.nextAnswer ? `next answer from ${row.nextAnswer}` : "no further answer")
    ),
  ].join("\n");
}

/**
 * Return the rounds (the first ones of spans) of a survey that are answered, from this one on.
 * @param {Survey} survey @param {number} round @param {Drawn} drawnIn
 */
async function answeredRounds(survey, round, drawnIn) {
  const last = survey.firstRound + survey.rounds - 1, answered = [];
  let known = /** @type {Awaited<ReturnType<Drawn>>} */ (undefined), until = "";
  for (
    let next = survey.spanOf(Math.max(round, survey.firstRound));
    next <= last;
    next += survey.repeatRounds
  ) {
    const quarter = quarterOfRound(survey, next);
    if (quarter !== until) {
      until = quarter;
      known = await drawnIn(survey, next);
    }
    if (!known || known.drawn.includes(next)) answered.push(next);
  }
  return answered;
}
