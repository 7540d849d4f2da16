/** The app's own limits, which ship with its code: a survey may ask for less, and no server can change them. */

import { isLabelValue } from "./labels.js";
import { billionths } from "./survey.js";
import { KINDS } from "./tables.js";

/**
 * @typedef {object} PolicyOptions
 * @property {string[]} keys raw Ed25519 public keys in hex; only surveys that they signed are answered
 * @property {Record<string, "bit" | "number" | "choice" | "text" | "vector">} questions the questions that the app answers, with the kind of each
 * @property {string} [maxEpsilonPerRound] the maximum ε of one survey in one round, as exact decimal text
 * @property {string} [maxEpsilonPerSurvey] the maximum ε of one survey name and signing key in each quarter, which also decides how many rounds are answered
 * @property {string} [maxEpsilon] the maximum ε that this install, or each person, spends in each quarter, over all surveys and rounds
 * @property {string} [maxEpsilonPerQuestion] the same for each question name, so that republishing a question does not refill its budget
 * @property {"quarter" | "lifetime"} [per] how long the caps hold; with "lifetime", every round is answered until they are reached
 * @property {string[]} [labels] the names of the labels that may be sent in clear with a report
 * @property {string[]} [surveys] ids of surveys, if the app answers only these
 */

export class Policy {
  /** Return the ε of a survey in one quarter that every cap allows, for at least one round. @param {import("./surveys.js").Survey} survey */
  budgetOf({ epsilon, questions }) {
    const counts = [this.surveyCap / epsilon, this.totalCap / epsilon];
    counts.push(...questions.map((question) => this.questionCap / question.epsilon));
    const least = counts.reduce((a, b) => a < b ? a : b);
    return (least > 0n ? least : 1n) * epsilon;
  }

  /**
   * Return why the ε of one round of a survey is above a cap. @param {import("./surveys.js").Survey} survey
   */
  excess({ epsilon }) {
    if (epsilon > this.roundCap) return "the survey asks for more than maxEpsilonPerRound";
    return epsilon > this.surveyCap
      ? "one round of the survey asks for more than maxEpsilonPerSurvey"
      : undefined;
  }

  /** Return why the app must not answer a survey, from names, kinds and caps alone.
   * @param {import("./surveys.js").Survey} survey @param {string[]} names @param {boolean} ended whether the answers are about the last round that is over */
  obstacle(survey, names, ended) {
    const { over } = survey.questions[0];
    if (over !== "first" && !ended) return redrawn(over);
    const asked = survey.questions.map((question) => question.name);
    if (asked.length !== names.length || !asked.every((name) => names.includes(name))) {
      return `the survey needs an answer to each of its questions: ${asked.join(", ")}`;
    }
    return this.refusal(survey);
  }

  /** Return why the policy refuses a survey's questions or labels. @param {import("./surveys.js").Survey} survey */
  refusal(survey) {
    const excess = this.excess(survey);
    if (excess) return excess;
    const label = survey.labels.find(({ name, drawn }) => !drawn && !this.labels.includes(name));
    if (label) return `the survey sends the label ${label.name}, which the app forbids`;
    const other = survey.questions.find((question) =>
      this.questions.get(question.name) !== question.kind
    );
    return other &&
      `question ${other.name} is asked as a ${other.kind}, and the app declares another kind`;
  }

  /** @param {PolicyOptions} options */
  constructor(
    {
      keys,
      questions,
      maxEpsilonPerRound = "2",
      maxEpsilonPerSurvey = "2",
      maxEpsilon = "8",
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
      !this.questions.size ||
      ![...this.questions.values()].every((kind) => Object.hasOwn(KINDS, kind))
    ) {
      throw new TypeError(
        `questions: give each question its kind, one of ${Object.keys(KINDS).join(", ")}`,
      );
    }
    if (per !== "quarter" && per !== "lifetime") {
      throw new TypeError('per: write "quarter" or "lifetime"');
    }
    this.per = per;
    this.surveyCap = cap("maxEpsilonPerSurvey", maxEpsilonPerSurvey);
    this.roundCap = cap("maxEpsilonPerRound", maxEpsilonPerRound);
    this.totalCap = cap("maxEpsilon", maxEpsilon);
    this.questionCap = maxEpsilonPerQuestion === undefined
      ? this.totalCap
      : cap("maxEpsilonPerQuestion", maxEpsilonPerQuestion);
  }
}

/** Return why reports that are redrawn until their round ends cannot be made here. @param {string} over */
const redrawn = (over) =>
  `the survey asks over "${over}"; this client answers it only with of: "ended", about the round that is over`;

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
