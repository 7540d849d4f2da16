/**
 * Random participation: the rounds of a survey that an install answers, drawn in advance.
 *
 * In each calendar quarter, an install answers k of the T rounds that begin in it, whether or not the
 * survey is open in them: k = min(T, ⌊maxEpsilonPerSurvey / ε of a round⌋). The draw depends on policy
 * and survey alone, so each round is answered by a random sample of all installs.
 */

import { hmac } from "./envelope.js";
import { quarterOf } from "./ledger.js";
import { hex } from "./survey.js";

/** @typedef {import("./surveys.js").Survey} Survey */

/** Return when the next quarter begins. @param {number} time */
export const nextQuarter = (time) => {
  const day = new Date(time);
  return Date.UTC(day.getUTCFullYear(), day.getUTCMonth() - day.getUTCMonth() % 3 + 3);
};

/** Return the quarter in which a round, or its span, begins. @param {Survey} survey @param {number} round */
export const quarterOfRound = (survey, round) => quarterOf(survey.beginOf(survey.spanOf(round)));

/**
 * Return the quarter that a round is charged to: today's for a survey that is asked once, otherwise the one
 * in which the round, or its span, begins, or the previous quarter if it began earlier. Surveys that claim
 * to have opened long ago must not spend the caps of many quarters on one day.
 * @param {Survey} survey @param {number} round @param {number} now
 */
export function chargedQuarter(survey, round, now) {
  if (survey.period === "once") return quarterOf(now);
  const today = new Date(now), month = today.getUTCMonth() - today.getUTCMonth() % 3;
  const before = Date.UTC(today.getUTCFullYear(), month) - 1;
  return quarterOf(Math.max(survey.beginOf(survey.spanOf(round)), before));
}

/** Return the rounds, or first rounds of spans, that begin in the quarter of a round. @param {Survey} survey @param {number} round */
export function roundsOfQuarter(survey, round) {
  const begins = new Date(survey.beginOf(survey.spanOf(round))), step = survey.repeatRounds;
  const year = begins.getUTCFullYear(), month = begins.getUTCMonth() - begins.getUTCMonth() % 3;
  const from = Date.UTC(year, month), to = Date.UTC(year, month + 3), rounds = [];
  let first = survey.roundOf(from);
  first += Number(survey.beginOf(first) < from);
  first += ((survey.firstRound - first) % step + step) % step;
  for (let number = first; survey.beginOf(number) < to; number += step) rounds.push(number);
  return rounds;
}

/**
 * Return the rounds of a quarter that are answered; undefined if none are drawn, because all are answered.
 * @param {Survey} survey @param {number} round of the quarter @param {import("./policy.js").Policy} policy @param {() => Promise<Uint8Array<ArrayBuffer>>} key of the person
 * @returns {Promise<{rounds: number[], drawn: number[]} | undefined>}
 */
export async function drawnRounds(survey, round, policy, key) {
  if (policy.per !== "quarter" || survey.period === "once") return undefined;
  const rounds = roundsOfQuarter(survey, round), count = policy.budgetOf(survey) / survey.epsilon;
  if (count >= rounds.length) return undefined;
  const begin = `participation\0${survey.name}\0${quarterOfRound(survey, round)}\0`,
    own = await key();
  const scores = await Promise.all(
    rounds.map(async (number) => ({ number, score: hex(await hmac(own, `${begin}${number}`)) })),
  );
  scores.sort((a, b) => a.score < b.score ? -1 : 1);
  const drawn = scores.slice(0, Number(count)).map(({ number }) => number);
  return { rounds, drawn: drawn.sort((a, b) => a - b) };
}

/** Return the largest number of rounds that an install answers, quarter by quarter. @param {Survey} survey @param {bigint} cap of one survey */
export function answersPerQuarter(survey, cap) {
  if (survey.period === "once") return [1];
  const last = survey.firstRound + survey.rounds - 1, counts = [];
  for (let round = survey.firstRound; round <= last;) {
    const rounds = roundsOfQuarter(survey, round);
    const open = rounds.filter((number) => survey.firstRound <= number && number <= last);
    counts.push(Math.min(open.length, Number(cap / survey.epsilon)));
    round = rounds[rounds.length - 1] + survey.repeatRounds;
  }
  return counts;
}

/**
 * Return the rounds (the first ones of spans) of a survey that are answered, from this one on.
 * @param {Survey} survey @param {number} round @param {import("./policy.js").Policy} policy @param {() => Promise<Uint8Array<ArrayBuffer>>} key
 */
export async function answeredRounds(survey, round, policy, key) {
  const last = survey.firstRound + survey.rounds - 1, answered = [];
  let known = /** @type {Awaited<ReturnType<typeof drawnRounds>>} */ (undefined), until = "";
  for (
    let next = survey.spanOf(Math.max(round, survey.firstRound));
    next <= last;
    next += survey.repeatRounds
  ) {
    if (quarterOfRound(survey, next) !== until) {
      until = quarterOfRound(survey, next);
      known = await drawnRounds(survey, next, policy, key);
    }
    if (!known || known.drawn.includes(next)) answered.push(next);
  }
  return answered;
}
