/**
 * Random participation: the rounds of a survey that an install answers, drawn in advance.
 *
 * In each calendar quarter, an install answers k of the T rounds that begin in it, whether or not the
 * survey is open in them: k = min(T, ⌊maxEpsilonPerSurvey / ε of a round⌋). The draw depends on policy
 * and survey alone, so each round is answered by a random sample of all installs.
 */

import { hmac } from "./envelope.js";
import { quarterOfRound, roundsOfQuarter } from "./quarters.js";
import { hex } from "./survey.js";

/** @typedef {import("./surveys.js").Survey} Survey */

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
