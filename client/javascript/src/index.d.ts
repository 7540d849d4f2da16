/** The client for Node and browsers. README.md explains the rules for calling it. */

export type Status =
  | "queued"
  | "already-answered"
  | "not-drawn"
  | "budget-spent"
  | "refused"
  | "no-survey"
  | "closed"
  | "no-consent"
  | "unavailable";

/** The result of an answer. It contains no answer and may be logged. */
export interface Outcome {
  status: Status;
  detail: string;
  survey?: string;
  round?: number;
  /** The questions whose answers did not fit; not enumerable. */
  unfit?: readonly string[];
  /** The draws of a queued report, if `answer` was called with `draws: true`; not enumerable. They reveal the answer. */
  draws?: Draws;
}

/** What was drawn for a report, to show it to the person who answered. Never store, log or send it. */
export interface Draws {
  /** The parts of the report, without the labels. */
  payloads: Uint8Array[];
  /** All random bytes, in the order in which they were drawn. */
  rolls: DataView[];
}

export interface AnswerOptions {
  of?: "today" | "ended";
  /** Return the draws with the outcome, once the report is on disk. */
  draws?: boolean;
  /** The code of an invitation, for a survey by invitation. */
  invitation?: string;
  /** The survey that ships with the app, used if no list of surveys is stored and none can be fetched. */
  shipped?: unknown;
}

/** Called with the server's verdict on a report, which is named by its survey and round, like "<id>-0". */
// deno-lint-ignore no-explicit-any -- JSON
export type Settled = (report: string, reply: { status: number; json: any }) => unknown;

/** Records by name. Each promise resolves when the record is on disk. */
export interface Storage {
  /** Return a record, or undefined if there is none. */
  // deno-lint-ignore no-explicit-any -- JSON
  get(name: string): Promise<any>;
  /** Create a record unless one exists, and return whether this call created it. */
  create(name: string, value: unknown): Promise<boolean>;
  put(name: string, value: unknown): Promise<void>;
  remove(name: string): Promise<void>;
  /** Return the names with this prefix. */
  names(prefix: string): Promise<string[]>;
  /** Return the storage of a person, apart from this one. */
  within?(name: string): Storage;
}

export type Kind = "bit" | "number" | "choice" | "text" | "vector";

export interface PolicyOptions {
  /** Raw Ed25519 public keys in hex; only surveys that they signed are answered. */
  keys: string[];
  /** The questions that the app answers, with the kind of each. */
  questions: Record<string, Kind>;
  /** The maximum ε of one survey in one round, as exact decimal text; "2" if left out. */
  maxEpsilonPerRound?: string;
  /** The maximum ε of one survey name and signing key; "2" if left out. */
  maxEpsilonPerSurvey?: string;
  /** The maximum ε over all surveys and rounds; "8" if left out. */
  maxEpsilon?: string;
  /** The maximum ε of each question name. */
  maxEpsilonPerQuestion?: string;
  /** How long the last three hold; with "lifetime" they never renew. */
  per?: "quarter" | "lifetime";
  /** The names of the labels that may be sent in clear with a report. */
  labels?: string[];
  /** Ids of surveys, if the app answers only these. */
  surveys?: string[];
}

/** The app's own limits. A survey may ask for less, and no server can change them. */
export class Policy {
  constructor(options: PolicyOptions);
}

export interface ClientOptions {
  policy: Policy;
  storage: Storage;
  /** A report is sent at a random moment within this many seconds; 60 if left out. */
  sendWithin?: number;
  /** The address for sealed reports and the list of surveys. A survey that is not sealed is then refused. */
  relay?: string;
  /** Answer also in continuous integration, whose runs are not people. */
  allowCi?: boolean;
  /** Public properties, like { version: "3.0.1" }. Never set one from an answer. */
  labels?: Record<string, string>;
  /** The module "deniable/words", for `describe` and `budget` in a service worker, where browsers do not allow loading it later. */
  words?: typeof import("./words.js");
  /** Called when the server has accepted or refused a report. */
  settled?: Settled;
  /** The time in milliseconds, for tests. */
  now?: () => number;
  /** Random bytes, for tests. */
  draw?: (bytes: number) => DataView;
}

export interface DescribedQuestion {
  name: string;
  title: string;
  options: string[];
  unit: string;
  asked: string;
  epsilon: string;
  odds: string;
}

/** A survey in words for the person who is asked: `text` is everything, and each field can be shown in a dialog. */
export interface Description {
  survey: string;
  name: string;
  /** The tag of the survey's own texts; empty if the survey names no languages. */
  language: string;
  title: string;
  purpose: string;
  owner: string;
  when: string;
  rounds: number;
  repeatRounds: number;
  asksOne: boolean;
  questions: DescribedQuestion[];
  privacy: string[];
  caps: string;
  kept: string;
  stop: string[];
  text: string;
}

export interface QuestionBudget {
  name: string;
  spent: string;
  left: string;
}

export interface SurveyBudget extends QuestionBudget {
  /** The first day on which an answer can be charged; null if there is none. */
  nextAnswer: string | null;
}

/** The ε spent and left, as exact decimal text. */
export interface Budget {
  spent: string;
  left: string;
  cap: string;
  /** The day on which the budget renews; null if it never does. */
  renews: string | null;
  questions: QuestionBudget[];
  surveys: SurveyBudget[];
  text: string;
}

/** One person who uses an app: their consent, ledger, keys and answers. */
export interface Person {
  /** Return whether the person agreed; undefined if the person was never asked. Ask only in that case. */
  consented(): Promise<boolean | undefined>;
  /** Record that the person agrees, or withdraw and delete unsent reports. Return whether this is on disk. */
  consent(given: boolean): Promise<boolean>;
  /**
   * Randomize the answers to a survey, given by name or id, and queue the report. Call it for everyone, whatever the
   * true answer is. Rejects only with InvalidAnswer. With `of: "ended"`, the answers are about the last round that is over.
   */
  answer(
    survey: string,
    answers?: Record<string, unknown>,
    options?: AnswerOptions,
  ): Promise<Outcome>;
  /**
   * Return the arm of an experiment that this device has drawn. Without a stored list, it is drawn for the `shipped`
   * survey; without consent, it is the first arm of that survey. Undefined if no survey is known or the state cannot be used.
   */
  arm(survey: string, shipped?: unknown): Promise<string | undefined>;
  /** Return the ε spent and left, and when the next answers are possible. Needs no network. */
  budget(): Promise<Budget | Outcome>;
  /** Erase everything except the ledger. Return whether it succeeded. */
  forget(): Promise<boolean>;
}

/** One install of an app. It is also the install's own person. */
export class Client implements Person {
  constructor(server: string, options: ClientOptions);
  consented(): Promise<boolean | undefined>;
  consent(given: boolean): Promise<boolean>;
  answer(
    survey: string,
    answers?: Record<string, unknown>,
    options?: AnswerOptions,
  ): Promise<Outcome>;
  arm(survey: string, shipped?: unknown): Promise<string | undefined>;
  budget(): Promise<Budget | Outcome>;
  forget(): Promise<boolean>;
  /** Return one person of the many who share this client, by the app's id for them. */
  person(id: string, options?: { labels?: Record<string, string> }): Person;
  /** Fetch the list of surveys before the first answer. Return whether a fresh list is on disk. */
  prefetch(): Promise<boolean>;
  /** Describe a survey to a person: `language`, like "de-AT", chooses its own texts, and `texts` replaces sentences of `phrases.js`. */
  describe(
    survey: string,
    options?: { shipped?: unknown; texts?: Record<string, string>; language?: string },
  ): Promise<Description | Outcome>;
  /** Send the waiting reports, for at most this many seconds. Return how many still wait. */
  flush(seconds?: number): Promise<number>;
  /** Flush for a second and end the timer. Unsent reports stay on disk. */
  close(): Promise<void>;
}

/** An error for a question that the app's own policy does not declare. It never contains the answer. */
export class InvalidAnswer extends Error {}

/** An error for an id of a person that cannot be used. */
export class InvalidPerson extends TypeError {}
