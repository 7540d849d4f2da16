/** Strict parser of published surveys: signature, questions and rounds. */

import { BILLION } from "./exact.js";
import { parseLabels } from "./labels.js";
import { MECHANISMS } from "./mechanisms.js";
import {
  KINDS,
  LARGEST_BOUND,
  MAX_COORDINATE,
  MAX_DOCUMENT_BYTES,
  MAX_LABEL_CHARACTERS,
  MAX_LANGUAGES,
  MAX_PAIR_CELLS,
  MAX_PAIRS,
  MAX_QUESTIONS,
  MAX_ROUNDS,
  MAX_TITLE_CHARACTERS,
  MAX_UNIT_CHARACTERS,
  MIN_GRACE_DAYS,
  PERIODS,
  RESERVED,
} from "./tables.js";
import { digest, digitsOf, hex, isLine, isListOf, placeText } from "./text.js";

/** @typedef {import("./mechanisms.js").Answer} Answer */
/** @typedef {import("./mechanisms.js").Draw} Draw */
/** @typedef {{title?: string, unit?: string, options?: string[], labels?: string[], low?: number, high?: number, length?: number, dimension?: number}} DescribedQuestion */
/** An error for a survey that this app must not answer. */
export class Refused extends Error {}
/** An error of the state, the network or the platform. */
export class Unusable extends Error {}

const utf8 = new TextEncoder();
const DAY = 86_400_000;
export { hex };
/** @param {string} text */
export const unhex = (text) =>
  Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
/** @param {string} text */
export const sha256 = async (text) => hex(await digest(utf8.encode(text)));

/**
 * Reject unless a trusted key has signed exactly this text, and the id is the text's hash.
 * @param {{id: string, document: string, signature: string, key: string}} entry @param {readonly string[]} trusted
 */
export async function verify(entry, trusted) {
  if (entry.id !== (await sha256(entry.document))) {
    throw new Refused("the survey's id is not the hash of its document");
  }
  if (!trusted.includes(entry.key)) {
    throw new Refused("the survey is not signed by a key that this app trusts");
  }
  /** @param {string} key */
  const imported = (key) =>
    crypto.subtle.importKey("raw", unhex(key), "Ed25519", false, ["verify"]);
  await imported("58" + "66".repeat(31)).catch(() => { // the curve's base point: a valid key everywhere
    throw new Unusable("WebCrypto has no Ed25519 here, so no survey can be verified");
  });
  const signed = utf8.encode(`deniable survey v1\0${entry.document}`);
  const sound = /^[0-9a-f]{128}$/.test(entry.signature) && await imported(entry.key)
    .then(
      (key) => crypto.subtle.verify("Ed25519", key, unhex(entry.signature), signed),
      () => false,
    );
  if (!sound) throw new Refused("the survey's signature does not match its document");
}

/** @param {unknown} claim @param {string} where @returns {asserts claim} */
function must(claim, where) {
  if (!claim) throw new Refused(`the survey's document does not follow the protocol: ${where}`);
}

/** Require a table with these keys and no others but the optional ones. @param {any} table @param {string} where @param {string} keys with spaces between @param {string} [optional] */
function exactly(table, where, keys, optional = keys) {
  must(
    table?.constructor === Object && keys.split(" ").every((key) => key in table) &&
      Object.keys(table).every((key) => `${keys} ${optional}`.split(" ").includes(key)),
    where,
  );
}

/** @param {unknown} tag */
const isTag = (tag) => fits(tag, /^[a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}$/);

/** @param {any} value @param {number} low @param {number} high */
const isCount = (value, low, high) => Number.isInteger(value) && value >= low && value <= high;
/** @param {unknown} text @param {RegExp} pattern */
const fits = (text, pattern) => typeof text === "string" && pattern.test(text);

/** @param {unknown} text */
const isDigest = (text) => fits(text, /^[0-9a-f]{64}$/);

/** Read a day as milliseconds since 1970; NaN if it is not a day. @param {unknown} text */
function day(text) {
  const at = fits(text, /^\d{4}-\d\d-\d\d$/) ? Date.parse(`${text}T00:00Z`) : NaN;
  return at >= 0 && at < Date.UTC(9000) && new Date(at).toISOString().startsWith(String(text))
    ? at
    : NaN;
}

/** Read whole numbers in canonical notation; an empty list if one is malformed. @param {unknown} texts @returns {bigint[]} */
export const wholeNumbers = (texts) =>
  Array.isArray(texts) &&
    texts.every((text) => fits(text, /^(0|-?[1-9]\d{0,29})$/))
    ? texts.map(BigInt)
    : [];

/** Read decimal text as billionths of ε; -1 if it is malformed. @param {unknown} text */
export function billionths(text) {
  const match = typeof text === "string" && /^(0|[1-9]\d{0,8})(?:\.(\d{0,8}[1-9]))?$/.exec(text);
  return match ? BigInt(match[1]) * BILLION + BigInt((match[2] ?? "").padEnd(9, "0")) : -1n;
}

/** Return whether these are different pairs of bits and choices, to be counted together. @param {unknown} pairs @param {Question[]} questions */
function areCrossed(pairs, questions) {
  /** @param {unknown} name */
  const cells = (name) => questions.find((question) => question.name === name)?.cells ?? Infinity;
  /** @param {unknown} pair */
  const isPair = (pair) =>
    Array.isArray(pair) && pair.length === 2 && pair[0] !== pair[1] &&
    cells(pair[0]) * cells(pair[1]) <= MAX_PAIR_CELLS;
  return isListOf(pairs, 1, MAX_PAIRS, isPair) &&
    new Set(pairs.map((pair) => [...pair].sort().join())).size === pairs.length;
}

/** @param {string} text the document's exact text */
export function parseSurvey(text) {
  must(utf8.encode(text).length <= MAX_DOCUMENT_BYTES, "at most 4 MiB");
  const table = parseJson(text);
  exactly(table, "document", "deniable survey question", "label");
  const { survey, question: tables } = table;
  exactly(
    survey,
    "survey",
    "name title purpose owner opens closes round grace_days retention_days minimum_reports",
    "ask close_at cross follows follows_rule follows_tally invitation languages looks most_change repeat repeat_rounds sealed_to show_when step",
  );
  /** @param {string} key @param {(value: any) => unknown} isValid */
  const optional = (key, isValid) => must(!(key in survey) || isValid(survey[key]), key);
  must(
    fits(survey.name, /^(?![0-9A-Fa-f]{64}$)[A-Za-z0-9]([A-Za-z0-9-]{0,62}[A-Za-z0-9])?$/),
    "name",
  );
  must(isListOf(tables, 1, MAX_QUESTIONS, () => true), "question");
  optional("languages", (tags) => isListOf(tags, 1, MAX_LANGUAGES, isTag));
  const languages = survey.languages ?? [""];
  /** The tables of the survey and its questions, each with its texts in each language; a text that is not in exactly these languages counts as missing. @type {any[][]} */
  const described = [survey, ...tables].map((part) =>
    languages.map((/** @type {string} */ tag) =>
      Object.fromEntries(
        Object.entries(part ?? {}).map(([key, text]) => [
          key,
          text?.constructor !== Object
            ? text
            : Object.keys(text).length === survey.languages?.length && (text[tag] ?? 0),
        ]),
      )
    )
  );
  must(
    described[0].every(({ title, purpose, owner }) => [title, purpose, owner].every(isLine)),
    "title purpose owner",
  );
  must(table.deniable === 1 && Object.hasOwn(PERIODS, survey.round), "round");
  must(
    isCount(survey.grace_days, 0, 366) && isCount(survey.retention_days, 0, 3660) &&
      isCount(survey.minimum_reports, 1, 1e9),
    "counts",
  );
  const questions = tables.map((part, n) => parseQuestion(part, described[n + 1]));
  const names = questions.map((question) => question.name);
  must(new Set(names).size === names.length, "question names");
  const labels = "label" in table ? parseLabels(table.label, names) : [];
  must(labels, "label");
  const asksOne = "ask" in survey;
  optional("ask", (ask) => ask === 1 && questions.length > 1);
  optional("cross", (pairs) => !asksOne && areCrossed(pairs, questions));
  const opens = day(survey.opens),
    closes = day(survey.closes),
    period = PERIODS[survey.round];
  const of = (/** @type {number} */ at) => roundOf(period, at);
  must(opens <= closes && of(closes) - of(opens) < MAX_ROUNDS, "opens closes");
  const first = of(opens), rounds = of(closes) - first + 1;
  const redraws = checkOver(tables, survey);
  must("repeat" in survey === "repeat_rounds" in survey, "repeat");
  optional("repeat", (repeat) => repeat === "latched" && !redraws);
  optional("repeat_rounds", (count) => isCount(count, 2, rounds));
  optional("sealed_to", isDigest);
  optional(
    "invitation",
    (by) => by === true && survey.round === "once" && survey.sealed_to === undefined,
  );
  optional("close_at", (count) => isCount(count, Number(survey.step ?? 20), 1e9));
  optional("show_when", (margin) => fits(margin, /^± ([1-9]|[1-4]\d|50) points$/));
  optional(
    "most_change",
    (change) =>
      survey.round !== "once" && !("repeat" in survey) &&
      fits(change, /^(0\.\d?[1-9]|[1-9]\d?(\.\d?[1-9])?) points$/),
  );
  const follows = [survey.follows, survey.follows_rule, survey.follows_tally];
  const isDrafted = survey.round === "once" && labels.length === 0 && !("cross" in survey) &&
    isDigest(follows[0]) && isDigest(follows[2]) &&
    fits(follows[1], /^quantile 0\.[0-9]{1,9} of round (0|[1-9][0-9]{0,8})$/);
  must(follows.every((text) => text === undefined) || isDrafted, "follows");
  optional("step", (step) => isCount(step, 5, 1e6) && step !== 20);
  /** @type {number} */
  const repeatRounds = survey.repeat_rounds ?? 1;
  /** @param {number} round */
  const ends = (round) => beginOf(period, round + 1) ?? closes + DAY;
  /** Return when a round's reports are no longer accepted. @param {number} round */
  const takenUntil = (round) => ends(round) + survey.grace_days * DAY;
  /** Return the round that answers given now are about, or undefined: the current one, or the last that is over and still accepted. @param {number} now @param {boolean} ended */
  const roundAt = (now, ended) => {
    if (!ended) return opens <= now && now < closes + DAY ? of(now) : undefined;
    const round = now >= ends(of(closes)) ? of(closes) : of(now) - 1;
    return round >= first && now < takenUntil(round) ? round : undefined;
  };
  /** @param {number} round */
  const spanOf = (round) => round - (round - first) % repeatRounds;
  return {
    name: /** @type {string} */ (survey.name),
    period: /** @type {string} */ (survey.round),
    /** The languages of its texts, the default first; an empty tag if it names none. @type {string[]} */
    languages,
    described,
    rounds,
    firstRound: first,
    /** The number of rounds that share one report; 1 if each has its own. */
    repeatRounds,
    /** Return the first of the rounds that share a report with this one. */
    spanOf,
    /** Return when the rounds that share a report with this one are over. @param {number} round */
    spanEnds: (round) => ends(Math.min(spanOf(round) + repeatRounds, first + rounds) - 1),
    redraws,
    sealedTo: /** @type {string | undefined} */ (survey.sealed_to),
    byInvitation: survey.invitation === true,
    /** What is asked, without texts for people: equal in two surveys that ask the same. */
    asked: JSON.stringify([survey.round, asksOne, tables.map(whatIsAsked)]),
    asksOne,
    opens,
    closes: closes + DAY,
    questions,
    labels: labels ?? [],
    roundOf: of,
    roundAt,
    beginOf: (/** @type {number} */ round) => beginOf(period, round) ?? opens,
    takenUntil,
    keyUntil: takenUntil(of(closes)),
    /** The ε of one round. If one question is drawn, a report reveals nothing about the others. */
    epsilon: questions.map((question) => question.epsilon).reduce((a, b) =>
      asksOne ? a > b ? a : b : a + b
    ),
    report: asksOne ? reportOne(questions) : reportAll(questions),
  };
}

/** @param {any} table */
const whatIsAsked = ({ title: _, unit: __, labels: ___, ...asked }) => Object.entries(asked).sort();

/**
 * @typedef {ReturnType<typeof parseQuestion>} Question
 * @typedef {{payloads: Uint8Array[], unfit: string[]}} Report the payloads to send; for the app, the questions whose answers did not fit
 */
/** Place all answers before any noise is drawn. @param {Question[]} questions @param {unknown[]} answers */
const placed = (questions, answers) =>
  Promise.all(questions.map((question, n) => placedOne(question, answers[n])));

/** @param {Question} question @param {unknown} answer */
async function placedOne(question, answer) {
  try {
    return await question.place(answer);
  } catch {
    return undefined; // a value's own methods may throw anything
  }
}

/** @param {Question[]} questions @returns {(answers: unknown[], draw: Draw) => Promise<Report>} */
const reportAll = (questions) => async (answers, draw) =>
  randomized(questions, await placed(questions, answers), draw);

/** @param {Question[]} questions @param {(Answer | undefined)[]} places @param {Draw} draw @returns {Report} */
const randomized = (questions, places, draw) => {
  const made = questions.map((question, n) => question.report(places[n], draw));
  return {
    payloads: made.map((report) => report.payload),
    unfit: questions.filter((_, n) => !made[n].fits).map((question) => question.name),
  };
};

/**
 * Report one question, drawn independently of the answers. All answers are randomized and one is sent,
 * so that work and randomness do not depend on the draw.
 * @param {Question[]} questions @returns {(answers: unknown[], draw: Draw) => Promise<Report>}
 */
const reportOne = (questions) => async (answers, draw) => {
  const places = await placed(questions, answers);
  const drawn = Number((draw(8).getBigUint64(0, true) * BigInt(questions.length)) >> 64n);
  const { payloads, unfit } = randomized(questions, places, draw);
  const longest = Math.max(...payloads.map((payload) => payload.length));
  const padding = new Uint8Array(longest - payloads[drawn].length);
  return { payloads: [Uint8Array.of(drawn), payloads[drawn], padding], unfit };
};

/** Parse JSON in which no object repeats a key; `JSON.parse` would silently keep the last value. @param {string} text @returns {any} */
function parseJson(text) {
  let keys = 0;
  try {
    const table = JSON.parse(text, (_, value) => {
      keys += value && typeof value === "object" && !Array.isArray(value)
        ? Object.keys(value).length
        : 0;
      return value;
    });
    const written = text.replace(/"(?:[^"\\]|\\.)*"/gs, '""').match(/""\s*:/g)?.length ?? 0;
    must(written === keys, "each key once");
    return table;
  } catch (error) {
    throw error instanceof Refused ? error : new Refused("the survey's document is not JSON");
  }
}

/** Return whether titles, units and labels are valid; they do not affect the question. @param {any} table */
function areWords({ kind, options, title = "-", unit, labels }) {
  const short = (/** @type {any} */ text, /** @type {number} */ most) =>
    isLine(text) && [...text].length <= most;
  return short(title, MAX_TITLE_CHARACTERS) &&
    (unit === undefined || (KINDS[kind].unit && short(unit, MAX_UNIT_CHARACTERS))) &&
    (labels === undefined ||
      (kind === "choice" &&
        isListOf(labels, 0, Infinity, (label) => short(label, MAX_LABEL_CHARACTERS)) &&
        labels.length === options?.length));
}

/** Refuse a survey that another client may answer. @param {string} does @param {string} name */
const unknown = (does, name) =>
  new Refused(
    `the survey ${does} ${/^[a-z0-9-]{1,64}$/.test(name) ? name : "?"}, which this client does ` +
      "not know; a newer version or the client in Python may answer it",
  );

/** Return the listed mechanism of a question. @param {any} table */
function listedMechanism({ kind, mechanism }) {
  if (typeof kind === "string" && !Object.hasOwn(KINDS, kind)) {
    throw unknown("asks a question of kind", kind);
  }
  if (typeof mechanism === "string" && !Object.hasOwn(MECHANISMS, mechanism)) {
    throw unknown("uses the mechanism", mechanism);
  }
  const listed = MECHANISMS[mechanism];
  must(listed?.kind === kind, "mechanism");
  return listed;
}

/** Return whether reports are redrawn until their round ends. @param {any[]} questions @param {any} survey */
function checkOver(questions, survey) {
  const redrawn = questions.filter(({ kind, over }) => {
    must(KINDS[kind]?.overs.includes(over), "over");
    return over !== "first";
  });
  must([0, questions.length].includes(redrawn.length), "over");
  must(!redrawn.length || survey.grace_days >= MIN_GRACE_DAYS, "grace_days");
  return redrawn.length > 0;
}

/** @param {any} table @param {DescribedQuestion[]} texts the table in each language */
function parseQuestion(table, texts) {
  must(table && typeof table === "object", "question");
  const listed = listedMechanism(table), { kind, low, high, options, other } = table;
  const { length, buckets, salt, dimension } = table;
  const own = {
    number: listed.sizes[0] < listed.sizes[1] ? "low high grid" : "low high",
    choice: "options",
    text: "length buckets salt",
    vector: "dimension",
  }[/** @type {string} */ (kind)];
  exactly(
    table,
    "question",
    `name kind over epsilon mechanism integers${own ? ` ${own}` : ""}`,
    kind === "choice" ? "title unit labels other" : "title unit labels",
  );
  must(texts.every(areWords), "title unit labels");
  must(
    !RESERVED.includes(table.name) && fits(table.name, /^[A-Za-z_][A-Za-z0-9_]{0,63}$/),
    "question name",
  );
  const epsilon = billionths(table.epsilon);
  must(epsilon > 0n && epsilon <= 20n * BILLION, "epsilon");
  if (kind === "number") {
    must(
      [low, high].every((n) => Number.isFinite(n) && Math.abs(n) <= LARGEST_BOUND) && low < high,
      "low high",
    );
  }
  if (kind === "choice") {
    must(
      isListOf(options, 0, Infinity, (text) => typeof text === "string" && text.trim()) &&
        (other === undefined || options.includes(other)),
      "options",
    );
  }
  if (kind === "text") {
    must(isCount(length, 4, 32) && isCount(buckets, 1_024, 65_536), "length buckets");
    must((buckets & (buckets - 1)) === 0, "buckets are a power of two");
    must(isLine(salt), "salt");
  }
  const size = options?.length ?? buckets ?? dimension ?? table.grid ?? listed.sizes[0];
  must(
    isCount(size, listed.sizes[0], listed.sizes[1]) &&
      (size - listed.sizes[0]) % (listed.step ?? 1) === 0,
    "size",
  );
  const integers = wholeNumbers(table.integers),
    groups = kind === "text" ? digitsOf(length).length : undefined,
    mechanism = listed.make(epsilon, size, integers, groups);
  must(
    mechanism?.integers.length === integers.length &&
      integers.every((integer, n) => integer === mechanism.integers[n]),
    "integers are not those of its ε",
  );
  must(mechanism.isProved !== false, "its integers are not proved");
  const place = kind === "bit"
    ? placeBit
    : kind === "number"
    ? placeNumber(low, high)
    : kind === "text"
    ? placeText(length, buckets, salt)
    : kind === "vector"
    ? placeVector(dimension)
    : placeChoice(options, other);
  const cells = table.mechanism === "projective-geometry" ? Number(integers[1]) : size;
  return {
    name: /** @type {string} */ (table.name),
    kind: /** @type {string} */ (kind),
    epsilon,
    symbols: mechanism.symbols,
    over: /** @type {string} */ (table.over),
    cells: ["bit", "choice"].includes(kind) ? Number(cells) : Infinity, // of a cross table; only bits and choices can be crossed
    /** @type {(answer: unknown) => Answer | undefined | Promise<Answer | undefined>} */
    place,
    report: reporter(mechanism),
  };
}

/**
 * Make the payload, and report to the app whether the answer fits. A random answer is drawn in every
 * case, and used if the given one does not fit.
 * @param {import("./mechanisms.js").Mechanism} mechanism
 * @returns {(placed: Answer | undefined, draw: Draw) => {payload: Uint8Array, fits: boolean}}
 */
const reporter = (mechanism) => (placed, draw) => {
  const fits = placed !== undefined;
  const anywhere = (draw(8).getBigUint64(0, true) * BigInt(mechanism.answers)) >> 64n;
  const given =
    /** @type {Answer} */ ([mechanism.answerAt(Number(anywhere)), placed][Number(fits)]);
  return { payload: mechanism.randomize(given, draw), fits };
};

/** @param {unknown} answer */
const placeBit = (
  answer,
) => (answer === true || answer === 1 ? 1 : answer === false || answer === 0 ? 0 : undefined);

/** @param {string[]} options @param {string | undefined} other @returns {(answer: unknown) => number | undefined} */
function placeChoice(options, other) {
  const numbers = new Map(
    options.map((option, n) => /** @type {[unknown, number]} */ ([option, n])),
  );
  return (answer) => numbers.get(answer) ?? numbers.get(other);
}

/** Return a number of either type, clamped; NaN for other values. @param {unknown} value @param {number} low @param {number} high */
function clamped(value, low, high) {
  const whole = typeof value === "bigint"
    ? Number(value > 2n ** 53n ? 2n ** 53n : value < -(2n ** 53n) ? -(2n ** 53n) : value)
    : value;
  return typeof whole === "number" ? Math.min(Math.max(whole, low), high) : NaN;
}

/** Place a number in the range as an exact ratio. @param {number} low @param {number} high */
const placeNumber = (low, high) => (/** @type {unknown} */ answer) => {
  const number = clamped(answer, low, high);
  if (Number.isNaN(number)) return undefined;
  const at = exactly1075(number), from = exactly1075(low);
  return /** @type {[bigint, bigint]} */ ([at - from, exactly1075(high) - from]);
};

const AXIS = 2 ** 32;
const WHOLE = 1.5 * 2 ** 52; // adding it to a float and subtracting it rounds to the nearest whole number

/**
 * Place a vector: its direction in whole multiples of 2^-32, and its length of at most 1 in units of
 * 2^-64, by the same steps for every vector. @param {number} dimension
 */
const placeVector = (dimension) => (/** @type {any} */ answer) => {
  const isListed = Array.isArray(answer) || (ArrayBuffer.isView(answer) && "length" in answer);
  const listed = [[], answer][Number(isListed)];
  const read = Array.from(
    { length: dimension },
    (_, n) => clamped(listed[n], -MAX_COORDINATE, MAX_COORDINATE),
  );
  const fits = listed.length === dimension && read.every((x) => x === x);
  const values = read.map((x) => x || 0), largest = Math.max(...values.map(Math.abs));
  const small = values.map((x) => x / (largest || 1));
  small[0] += Number(largest === 0); // a vector of length 0 also gets a direction
  const length = Math.sqrt(small.reduce((sum, x) => sum + x * x, 0)), scale = AXIS / length;
  const direction = small.map((x) => x * scale + WHOLE - WHOLE);
  const units = BigInt(Math.trunc(Math.min(1, largest * length) * 2 ** 64));
  return [undefined, { direction, length: units }][Number(fits)];
};

/** Return a float as a multiple of 2^-1075, in the same number of steps for every float. @param {number} x */
function exactly1075(x) {
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, x);
  const raw = bits.getBigUint64(0), exponent = (raw >> 52n) & 2047n;
  const whole = ((raw & (2n ** 52n - 1n)) + (exponent && 2n ** 52n)) << (exponent || 1n);
  return raw >> 63n ? -whole : whole;
}

/** Return the number of the round at a time. @param {import("./tables.js").Period} period @param {number} at */
function roundOf({ days, shift = 0, months }, at) {
  const date = new Date(at);
  if (days) return Math.floor((Math.floor(at / DAY) + shift) / days);
  if (months) {
    return Math.floor(((date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth()) / months);
  }
  return 0;
}

/** Return when a round begins; undefined if there is only one. @param {import("./tables.js").Period} period @param {number} round */
function beginOf({ days, shift = 0, months }, round) {
  if (days) return (days * round - shift) * DAY;
  return months && Date.UTC(1970, months * round);
}
