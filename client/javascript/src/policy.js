/** The app's own limits, which ship with its code: a survey may ask for less, and no server can change them. */

import { isLabelValue } from "./labels.js";
import { billionths } from "./survey.js";

const KINDS = ["bit", "number", "choice", "text"];

/**
 * @typedef {object} PolicyOptions
 * @property {string[]} keys raw Ed25519 public keys in hex; only surveys that they signed are answered
 * @property {Record<string, "bit" | "number" | "choice" | "text">} questions the questions that the app answers, with the kind of each
 * @property {string} [maxEpsilonPerRound] the maximum ε of one survey in one round, as exact decimal text
 * @property {string} [maxEpsilon] the maximum ε that this install spends in a calendar quarter, over all surveys and rounds
 * @property {string} [maxEpsilonPerSurvey] the same for each name and signing key of a survey
 * @property {string} [maxEpsilonPerQuestion] the same for each question name, so that republishing a question does not refill its budget
 * @property {"quarter" | "lifetime"} [per] the time in which these three are spent; "lifetime": they never renew
 * @property {string[]} [labels] the names of the labels that may be sent in clear with a report
 * @property {string[]} [surveys] ids of surveys, if the app answers only these
 */

export class Policy {
  /** @param {PolicyOptions} options */
  constructor(
    {
      keys,
      questions,
      maxEpsilonPerRound = "2",
      maxEpsilon = "8",
      maxEpsilonPerSurvey = "2",
      maxEpsilonPerQuestion,
      per = "quarter",
      surveys,
      labels = [],
    },
  ) {
    if (!Array.isArray(labels) || !labels.every((name) => typeof name === "string" && name)) {
      throw new TypeError('labels: give a list of names, like ["version"]');
    }
    this.labels = /** @type {readonly string[]} */ (labels);
    this.keys = ids("keys", keys);
    this.surveys = surveys && ids("surveys", surveys);
    this.questions = new Map(Object.entries(questions ?? {}));
    if (
      !this.questions.size || ![...this.questions.values()].every((kind) => KINDS.includes(kind))
    ) {
      throw new TypeError(
        `questions: give each question its kind, one of ${KINDS.join(", ")}`,
      );
    }
    this.roundCap = cap("maxEpsilonPerRound", maxEpsilonPerRound);
    this.totalCap = cap("maxEpsilon", maxEpsilon);
    this.surveyCap = cap("maxEpsilonPerSurvey", maxEpsilonPerSurvey);
    if (per !== "quarter" && per !== "lifetime") {
      throw new TypeError('per: write "quarter" or "lifetime"');
    }
    this.per = per;
    this.questionCap = maxEpsilonPerQuestion === undefined
      ? this.totalCap
      : cap("maxEpsilonPerQuestion", maxEpsilonPerQuestion);
  }
}

/** Return the app's labels; throw for those that it may not send. @param {Policy} policy @param {unknown} labels */
export function checkedLabels(policy, labels) {
  if (!labels || typeof labels !== "object" || Array.isArray(labels)) {
    throw new TypeError('labels: give each label its value, like { version: "3.0" }');
  }
  const given = new Map(Object.entries(labels));
  for (const [name, value] of given) {
    if (!policy.labels.includes(name)) {
      throw new TypeError(`labels: ${name} is not named in the policy`);
    }
    if (!isLabelValue(value)) {
      throw new TypeError(
        `labels: ${name} must be text of 1 to 32 bytes without control characters`,
      );
    }
  }
  return /** @type {Map<string, string>} */ (given);
}

/** @param {string} name @param {unknown} texts */
function ids(name, texts) {
  if (
    !Array.isArray(texts) || !texts.length ||
    !texts.every((text) => typeof text === "string" && /^[0-9a-f]{64}$/i.test(text))
  ) {
    throw new TypeError(`${name}: give a list of strings of 64 hex digits`);
  }
  return /** @type {readonly string[]} */ (texts.map((text) => text.toLowerCase()));
}

/** @param {string} name @param {unknown} text */
function cap(name, text) {
  const value = billionths(text);
  if (value <= 0n) throw new TypeError(`${name}: write the cap as decimal text above 0, like "2"`);
  return value;
}
