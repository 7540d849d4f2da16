/** Tables that both clients share, written by `python -m tests.reference`. */

/** @typedef {"queued" | "already-answered" | "not-drawn" | "budget-spent" | "refused" | "no-survey" | "closed" | "no-consent" | "unavailable"} Status */

/** @typedef {{overs: string[], unit: boolean}} Kind */

/** @typedef {{kind: string, sizes: number[], step?: number}} Sizes */

/** @typedef {{days?: number, shift?: number, months?: number}} Period */

/** overs: what `over` may be @type {Record<string, Kind>} */
export const KINDS = {
  bit: { overs: ["first", "last", "any", "all"], unit: false },
  number: { overs: ["first", "last"], unit: true },
  choice: { overs: ["first", "last"], unit: false },
  text: { overs: ["first", "last"], unit: false },
  vector: { overs: ["first", "last"], unit: false },
};

/** sizes: the smallest and largest; step: their distance @type {Record<string, Sizes>} */
export const SIZES = {
  "randomized-response": { kind: "bit", sizes: [2, 2] },
  "k-randomized-response": { kind: "choice", sizes: [2, 65536] },
  "subset-selection": { kind: "choice", sizes: [2, 8192] },
  "unary": { kind: "choice", sizes: [2, 8192] },
  "projective-geometry": { kind: "choice", sizes: [2, 65536] },
  "one-bit-mean": { kind: "number", sizes: [1, 1] },
  "local-laplace": { kind: "number", sizes: [1, 255] },
  "ternary": { kind: "number", sizes: [2, 2] },
  "split-sign": { kind: "number", sizes: [2, 2] },
  "optimal-table": { kind: "number", sizes: [2, 32], step: 2 },
  "square-wave": { kind: "number", sizes: [2, 128] },
  "grouped-k-randomized-response": { kind: "text", sizes: [2, 65536] },
  "grouped-subset-selection": { kind: "text", sizes: [2, 8192] },
  "grouped-unary": { kind: "text", sizes: [2, 8192] },
  "grouped-projective-geometry": { kind: "text", sizes: [2, 65536] },
  "k-closest": { kind: "vector", sizes: [2, 1024] },
};

/** a round has so many days or months; shift: days from the first round to 1970-01-01 @type {Record<string, Period>} */
export const PERIODS = {
  once: {},
  day: { days: 1, shift: 0 },
  week: { days: 7, shift: 3 },
  month: { months: 1 },
};

/** variables that continuous integration sets */
export const ROBOTS = [
  "CI",
  "CONTINUOUS_INTEGRATION",
  "GITHUB_ACTIONS",
  "GITLAB_CI",
  "BUILDKITE",
  "JENKINS_URL",
  "TF_BUILD",
  "TEAMCITY_VERSION",
  "CIRCLECI",
  "TRAVIS",
  "APPVEYOR",
  "BITBUCKET_BUILD_NUMBER",
  "CODEBUILD_BUILD_ID",
  "DRONE",
];

/** names that no question may have */
export const RESERVED = [
  "of",
];

/** statuses after which nothing is sent again */
export const FINAL = [
  400,
  405,
  406,
  410,
  411,
  413,
  414,
  415,
  422,
  431,
];

/** refusals after which a report is sent again */
export const PASSING = [
  "early",
];

export const MAX_QUESTIONS = 100;
export const MAX_DOCUMENT_BYTES = 4194304;
export const MIN_GRACE_DAYS = 2;
export const MAX_TITLE_CHARACTERS = 200;
export const MAX_UNIT_CHARACTERS = 20;
export const MAX_LABEL_CHARACTERS = 100;
export const MAX_ROUNDS = 10000;
export const MAX_PAIRS = 10;
export const MAX_PAIR_CELLS = 1024;
export const MAX_LANGUAGES = 16;
export const MAX_TEXT_CHARACTERS = 2000;
export const MAX_LABELS = 8;
export const MAX_VALUES = 64;
export const MAX_VALUE_BYTES = 32;
export const MAX_PATTERN_CHARACTERS = 100;
export const NOT_GIVEN = 255;
export const LARGEST_BOUND = 9007199254740992;
export const MAX_COORDINATE = 1.0715086071862673e+301;
export const MAX_LISTED = 1000;
export const MAX_NAME_OFFSET = 1000;
export const FRESH_SECONDS = 3600;
export const MAX_PAUSE_SECONDS = 300;
export const MAX_LIST_BYTES = 33554432;
export const MAX_REPLY_BYTES = 65536;
export const MAX_TRIES = 10;
