/** The app's own limits. They ship with its code: a survey may ask for less, and no server changes them. */

import { billionths } from "./survey.js";

const KINDS = ["bit", "number", "choice", "text"];

/**
 * @typedef {object} PolicyOptions
 * @property {string[]} keys raw Ed25519 public keys in hex; only what they signed is answered
 * @property {Record<string, "bit" | "number" | "choice">} questions what the app answers, and of which kind each is
 * @property {string} [maxEpsilonPerRound] the most that one survey may ask for in one round; decimal text, which is exact
 * @property {string} [maxEpsilon] the most that this install ever spends, over all surveys and rounds
 * @property {string} [maxEpsilonPerQuestion] the same for each question name: republishing must not refill a budget
 * @property {string[]} [surveys] ids, if the app answers only those
 */

export class Policy {
  /** @param {PolicyOptions} options */
  constructor(
    { keys, questions, maxEpsilonPerRound = "2", maxEpsilon = "6", maxEpsilonPerQuestion, surveys },
  ) {
    this.keys = ids("keys", keys);
    this.surveys = surveys && ids("surveys", surveys);
    this.questions = new Map(Object.entries(questions ?? {}));
    if (
      !this.questions.size || ![...this.questions.values()].every((kind) => KINDS.includes(kind))
    ) {
      throw new TypeError(
        `questions: name what the app answers, each as one of ${KINDS.join(", ")}`,
      );
    }
    this.roundCap = cap("maxEpsilonPerRound", maxEpsilonPerRound);
    this.totalCap = cap("maxEpsilon", maxEpsilon);
    this.questionCap = maxEpsilonPerQuestion === undefined
      ? this.totalCap
      : cap("maxEpsilonPerQuestion", maxEpsilonPerQuestion);
  }
}

/** @param {string} name @param {unknown} texts */
function ids(name, texts) {
  if (
    !Array.isArray(texts) || !texts.length ||
    !texts.every((each) => typeof each === "string" && /^[0-9a-f]{64}$/i.test(each))
  ) {
    throw new TypeError(`${name}: give a list of texts of 64 hex digits`);
  }
  return /** @type {readonly string[]} */ (texts.map((each) => each.toLowerCase()));
}

/** @param {string} name @param {unknown} text */
function cap(name, text) {
  const value = billionths(text);
  if (value <= 0n) throw new TypeError(`${name}: write the cap as decimal text above 0, like "2"`);
  return value;
}
