/** Calendar quarters, in UTC, and the rounds that begin in them. */

/** @typedef {import("./surveys.js").Survey} Survey */

/** Return the calendar quarter of a moment, in UTC, such as "2026-Q4". @param {number} moment */
export function quarterOf(moment) {
  const date = new Date(moment);
  return `${date.getUTCFullYear()}-Q${1 + Math.floor(date.getUTCMonth() / 3)}`;
}

/** Return when the quarter of a moment begins, or one that many quarters later. @param {number} moment @param {number} [later] */
export function beginOfQuarter(moment, later = 0) {
  const date = new Date(moment), month = date.getUTCMonth();
  return Date.UTC(date.getUTCFullYear(), month - month % 3 + 3 * later);
}

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
  return quarterOf(Math.max(survey.beginOf(survey.spanOf(round)), beginOfQuarter(now) - 1));
}

/** Return the rounds, or first rounds of spans, that begin in the quarter of a round. @param {Survey} survey @param {number} round */
export function roundsOfQuarter(survey, round) {
  const begins = survey.beginOf(survey.spanOf(round)), step = survey.repeatRounds;
  const from = beginOfQuarter(begins), to = beginOfQuarter(begins, 1), rounds = [];
  let first = survey.roundOf(from);
  first += Number(survey.beginOf(first) < from);
  first += ((survey.firstRound - first) % step + step) % step;
  for (let number = first; survey.beginOf(number) < to; number += step) rounds.push(number);
  return rounds;
}
