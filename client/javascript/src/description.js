/** Descriptions of surveys for the people who are asked, in the same sentences as the Python client's. */

import { BILLION, exp } from "./exact.js";
import {
  ENGLISH,
  FINGERPRINT_BITS,
  MAX_SHOWN_CHARACTERS,
  MAX_SHOWN_OPTIONS,
  MAX_SPREAD_DAYS,
} from "./phrases.js";
import { roundsOfQuarter } from "./quarters.js";

const DAY = 86_400_000, BITS = 128n;
const MAX_SHOWN_EPSILON = 30n * BILLION;

/**
 * @typedef {import("./surveys.js").Survey} Survey
 * @typedef {Partial<Record<keyof typeof ENGLISH, string>>} Texts sentences of another language
 * @typedef {{name: string, title: string, options: string[], unit: string, asked: string, epsilon: string, odds: string}} DescribedQuestion
 * @typedef {ReturnType<typeof describe>} Description
 */

/** Describe a survey. Each field can be shown in a dialog; `text` is all of them, in lines.
 * @param {string} id @param {Survey} survey @param {import("./policy.js").Policy} policy @param {Texts} [replaced] @param {string} [wanted] language */
export function describe(id, survey, policy, replaced = {}, wanted = "") {
  const texts = { ...ENGLISH, ...replaced };
  const n = closestLanguage(wanted, survey.languages), reports = reportsOf(survey, policy);
  const [described, ...asked] = survey.described.map((texts) => texts[n]);
  const questions = survey.questions.map((question, n) =>
    describeQuestion(question, asked[n], reports, texts)
  );
  const { rounds, asksOne, repeatRounds } = survey, several = rounds > 1;
  const every = texts[/** @type {"every_day"} */ (`every_${survey.period}`)];
  const [one, all] = [survey.epsilon, survey.epsilon * drawsOf(survey)].map((epsilon) =>
    growthOf(epsilon, texts)
  );
  const labels = survey.labels.map(({ name, listed }) =>
    shown(`${name} (${listed.join(", ") || texts.any_text})`)
  );
  const days = described.retention_days;
  const told = {
    survey: id,
    name: survey.name,
    language: survey.languages[n],
    title: shown(described.title),
    purpose: shown(described.purpose),
    owner: shown(described.owner),
    when: fill(texts.when, {
      every: several ? fill(texts.rounds, { every, rounds: grouped(rounds) }) : every,
      opens: iso(survey.opens),
      closes: iso(survey.closes - DAY),
    }),
    rounds,
    repeatRounds,
    asksOne,
    questions: questions.map(({ odds, ...question }) => ({ ...question, odds: odds.trim() })),
    privacy: [
      texts.noise,
      fill(repeatRounds > 1 ? texts.span : texts.round, {
        rounds: grouped(repeatRounds),
        growth: one,
      }),
      ...(several ? [fill(texts.survey, { rounds: grouped(rounds), growth: all })] : []),
      ...repeated(survey, texts),
      ...drafts(survey, texts),
      fill(texts.clear, { names: [texts.clear_survey, texts.clear_round, ...labels].join(", ") }),
      texts.address,
      ...(survey.sealedTo === undefined ? [] : [texts.sealed]),
      ...(survey.byInvitation ? [texts.invitation] : []),
    ],
    caps: capsOf(survey, policy, texts),
    kept: fill(texts.kept, {
      days: fill(days === 1 ? texts.one_day : texts.days, { days: grouped(days) }),
      until: iso(survey.keyUntil + days * DAY),
    }),
    stop: [texts.stop, texts.forget, texts.counted],
  };
  const text = [
    told.title,
    fill(texts.why, told),
    fill(texts.owner, told),
    told.when,
    asksOne ? texts.one_question : texts.questions,
    ...questions.flatMap((question, n) => [
      fill(texts.question, question),
      fill(texts.answers, question),
      ...overOf(survey, survey.questions[n].over, texts),
      question.odds,
    ]),
    ...told.privacy,
    told.caps,
    told.kept,
    ...told.stop,
  ].join("\n");
  return { ...told, text };
}

/** Return the index of the language that is closest to a wanted tag, by the rule of PROTOCOL.md, section 1. @param {string} wanted @param {string[]} languages */
export function closestLanguage(wanted, languages) {
  const subtags = wanted.toLowerCase().split("-");
  const ranks = languages.map((language) => {
    const own = language.toLowerCase().split("-");
    const equal = own.filter((subtag, n) => subtag === subtags[n]);
    return own[0] === subtags[0] ? equal.length - language.length / 99 : 0;
  });
  return ranks.indexOf(Math.max(...ranks));
}

/** @param {Survey["questions"][number]} question @param {import("./survey.js").DescribedQuestion} described @param {bigint} reports @param {typeof ENGLISH} texts @returns {DescribedQuestion} */
function describeQuestion({ name, kind, epsilon }, described, reports, texts) {
  const { title = name, unit = "", low = 0, high = 0, length = 0, dimension = 0 } = described;
  const listed = described.labels ?? described.options ?? [];
  const more = listed.length - MAX_SHOWN_OPTIONS;
  const first = listed.slice(0, MAX_SHOWN_OPTIONS).join(", ");
  const options = more > 0
    ? fill(texts.more_options, { options: first, more: grouped(more) })
    : first;
  const form = texts[/** @type {"answer_bit"} */ (`answer_${kind}`)];
  const asked = fill(form, {
    low: grouped(low),
    high: grouped(high),
    length: grouped(length),
    dimension: grouped(dimension),
    options,
  });
  const one = growthOf(epsilon, texts), all = growthOf(reports * epsilon, texts);
  return {
    name,
    title: shown(title),
    options: listed.map(shown),
    unit: shown(unit),
    asked: shown(unit ? fill(texts.unit, { asked, unit }) : asked),
    epsilon: decimal(epsilon),
    odds: reports > 1n
      ? fill(texts.odds_of_several, { growth: one, reports: grouped(Number(reports)), all })
      : fill(texts.odds, { growth: one }),
  };
}

/** Describe what reports that several rounds share hide and reveal. @param {Survey} survey @param {typeof ENGLISH} texts */
function repeated({ repeatRounds, questions, asksOne }, texts) {
  if (repeatRounds === 1) return [];
  const symbols = questions.map((question) => question.symbols);
  const bits = asksOne
    ? log2(symbols.reduce((a, b) => a + b))
    : symbols.reduce((sum, number) => sum + log2(number), 0);
  return [
    fill(texts.kept_report, { rounds: grouped(repeatRounds) }),
    texts.late_change,
    bits > FINGERPRINT_BITS
      ? fill(texts.linked, { bits: grouped(halfToEven(bits)) })
      : fill(texts.not_linked, { reports: grouped(halfToEven(2 ** bits)) }),
  ];
}

/** Describe the part of a round that a question asks about, if reports leave after it. @param {Survey} survey @param {string} over @param {typeof ENGLISH} texts */
function overOf({ redraws, period, rounds, firstRound, takenUntil }, over, texts) {
  if (!redraws) return [];
  const asked = fill(texts.over_round, {
    asked: texts[/** @type {"over_any"} */ (`over_${over}`)],
    period: texts[/** @type {"over_day"} */ (`over_${period}`)],
  });
  const among = fill(rounds === 1 ? texts.over_among : texts.over_among_first, {
    asked,
    until: dayOf(takenUntil(firstRound), texts),
  });
  return [fill(texts.over, { asked: `${among[0].toUpperCase()}${among.slice(1)}` })];
}

/** Describe when reports leave, if after their round. @param {Survey} survey @param {typeof ENGLISH} texts */
function drafts({ redraws, spanEnds, takenUntil, firstRound }, texts) {
  if (!redraws) return [];
  const begin = spanEnds(firstRound);
  const grace = takenUntil(firstRound) - begin;
  const end = begin + Math.min(DAY * MAX_SPREAD_DAYS, grace / 2);
  const isSameMonth = iso(begin).slice(0, 7) === iso(end).slice(0, 7);
  const first = isSameMonth ? new Date(begin).getUTCDate() : dayOf(begin, texts);
  const days = fill(texts.days_between, { first, last: dayOf(end, texts) });
  return [fill(texts.drafts, { days })];
}

/** @param {number} time @param {typeof ENGLISH} texts */
const dayOf = (time, texts) =>
  fill(texts.day_of_month, {
    day: new Date(time).getUTCDate(),
    month: texts.months.split(" ")[new Date(time).getUTCMonth()],
  });

/** @param {bigint} number */
function log2(number) {
  const more = Math.max(0, number.toString(2).length - 60);
  return more + Math.log2(Number(number >> BigInt(more)));
}

/** Round as Python does. @param {number} x */
const halfToEven = (x) => x % 1 === 0.5 ? 2 * Math.round(x / 2) : Math.round(x);

/** Return the number of times that noise is drawn and charged: once for each span. @param {Survey} survey */
const drawsOf = ({ rounds, repeatRounds }) => BigInt(Math.ceil(rounds / repeatRounds));

/** Return a number with commas between groups of digits. @param {number} number */
const grouped = (number) =>
  number.toLocaleString("en-US", { maximumFractionDigits: 20 }).replace("-", "−");

/** Return the number of reports with fresh noise that the app's limits allow. @param {Survey} survey @param {import("./policy.js").Policy} policy */
function reportsOf(survey, policy) {
  const { per, totalCap, surveyCap } = policy;
  if (per === "quarter") {
    const answers = answersPerQuarter(survey, policy.budgetOf(survey)).reduce((a, b) => a + b);
    return BigInt(Math.max(1, answers));
  }
  return min(drawsOf(survey), min(totalCap, surveyCap) / survey.epsilon);
}

/** Return the largest number of rounds that an install answers, quarter by quarter. @param {Survey} survey @param {bigint} cap of one survey */
function answersPerQuarter(survey, cap) {
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

/** Describe the budget of all rounds, or of those that the app's own limit allows. @param {Survey} survey @param {import("./policy.js").Policy} policy @param {typeof ENGLISH} texts */
function capsOf(survey, policy, texts) {
  const { epsilon, rounds, repeatRounds } = survey, { roundCap, surveyCap, totalCap } = policy;
  if (policy.excess(survey)) {
    const limit = decimal(min(roundCap, surveyCap));
    return fill(texts.caps_refused, { asked: decimal(epsilon), limit });
  }
  const drawn = reportsOf(survey, policy);
  if (policy.per === "quarter") {
    const most = Math.max(...answersPerQuarter(survey, policy.budgetOf(survey)));
    const used = decimal(BigInt(most) * epsilon);
    const caps = fill(texts.caps_renewed, { used, limit: decimal(totalCap) });
    return drawn === drawsOf(survey)
      ? caps
      : `${caps} ${fill(texts.caps_drawn, { answered: most })}`;
  }
  const answered = min(BigInt(rounds), drawn * BigInt(repeatRounds));
  const caps = fill(rounds === 1 ? texts.caps : texts.caps_of_rounds, {
    used: decimal(epsilon * drawn),
    limit: decimal(totalCap),
    each: decimal(epsilon),
    span: fill(repeatRounds > 1 ? texts.each_span : texts.each_round, { rounds: repeatRounds }),
  });
  return answered === BigInt(rounds)
    ? caps
    : `${caps} ${fill(texts.caps_end, { answered, rounds })}`;
}

/** Return the percentage to which a report of this ε can raise a suspicion of 10 %, rounded up. @param {bigint} epsilon */
export function beliefAfter(epsilon) {
  const grown = 10n * exp(min(epsilon, MAX_SHOWN_EPSILON), BILLION, BITS)[1];
  const whole = grown + (90n << BITS);
  return (100n * grown + whole - 1n) / whole;
}

/** @param {bigint} epsilon @param {typeof ENGLISH} texts */
function growthOf(epsilon, texts) {
  const share = beliefAfter(epsilon);
  const form = share < 100n ? texts.growth : texts.growth_beyond;
  return fill(form, { share: min(share, 99n), epsilon: decimal(epsilon) });
}

/** Replace each `{name}` with its value; a value is never searched for names. @param {string} form @param {Record<string, unknown>} values */
export const fill = (form, values) => form.replace(/\{(\w+)\}/g, (_, name) => String(values[name]));

/** @param {bigint} a @param {bigint} b */
const min = (a, b) => a < b ? a : b;

/** @param {number} time */
export const iso = (time) => new Date(time).toISOString().slice(0, 10);

/** Return the shortest decimal text of a number of billionths. @param {bigint} billionths */
export const decimal = (billionths) =>
  `${billionths / BILLION}.${String(billionths % BILLION).padStart(9, "0")}`.replace(/\.?0+$/, "");

/** Return a text without characters that move a cursor, begin a line or change the writing direction. @param {string} text */
export function shown(text) {
  const characters = [...text];
  const escaped = characters.slice(0, MAX_SHOWN_CHARACTERS).join("").replace(
    /(?! )[\p{C}\p{Z}]/gu,
    (sign) => {
      const code = Number(sign.codePointAt(0));
      const [letter, length] = code < 256 ? ["x", 2] : code < 65_536 ? ["u", 4] : ["U", 8];
      const named = { 9: "t", 10: "n", 13: "r" }[code];
      return `\\${named ?? letter + code.toString(16).padStart(length, "0")}`;
    },
  );
  return characters.length > MAX_SHOWN_CHARACTERS ? `${escaped}…` : escaped;
}
