/** The client: an app calls it to let its users answer surveys without revealing their answers. */

import { describe } from "./description.js";
import { envelopeId, hmac, packEnvelope } from "./envelope.js";
import { drawnArm, encodeLabel } from "./labels.js";
import { charge, quarterOf } from "./ledger.js";
import { Outbox } from "./outbox.js";
import { checkedLabels } from "./policy.js";
import { hex, unhex, Unusable } from "./survey.js";
import { Surveys } from "./surveys.js";
import { checkedAddress } from "./transport.js";

/**
 * @typedef {"queued" | "already-answered" | "budget-spent" | "refused" | "no-survey" | "closed" | "no-consent" | "unavailable"} Status
 * @typedef {{status: Status, detail: string, survey?: string, round?: number, unfit?: readonly string[]}} Outcome
 *   contains no answer and may be logged; `unfit` names the questions whose answers did not fit, and is not enumerable
 */

const NO_CONSENT = /** @type {const} */ ({
  status: "no-consent",
  detail: "consent was not given; call client.consent(true) once the person agrees",
});

/** @param {unknown} error @returns {Outcome} */
const failure = (error) => ({
  status: "unavailable",
  detail: error instanceof Unusable ? error.message : "the client failed; nothing was sent",
});

/** The beginnings of the names of all records but the ledger's. A storage may hold other things, too. */
const ERASABLE = ["report-", "try-", "key-", "closed-", "list-", "temporary-"];

/** An error for a question that the app's own policy does not declare. It never contains the answer. */
export class InvalidAnswer extends Error {}

export class Client {
  #server;
  #policy;
  #storage;
  #now;
  #draw;
  #surveys;
  #outbox;
  #allowCi;
  #labels;
  #withdrawn = false; // through this object; holds even if the disk fails

  /**
   * @param {string} server
   * @param {{policy: import("./policy.js").Policy, storage: import("./ledger.js").Storage, now?: () => number, draw?: import("./mechanisms.js").Draw, sendWithin?: number, allowCi?: boolean, labels?: Record<string, string>}} options
   *   `sendWithin`: a report is sent at a random moment within this many seconds;
   *   `allowCi`: answer also in continuous integration, whose runs are not people;
   *   `labels`: public properties, like { version: "3.0.1" }; never set one from an answer
   */
  constructor(
    server,
    {
      policy,
      storage,
      now = Date.now,
      draw = kernelDraw,
      sendWithin = 60,
      allowCi = false,
      labels = {},
    },
  ) {
    this.#allowCi = allowCi;
    this.#labels = checkedLabels(policy, labels);
    this.#server = checkedAddress(server);
    this.#policy = policy;
    this.#storage = storage;
    this.#now = now;
    this.#draw = draw;
    this.#surveys = new Surveys(this.#server, policy, storage, now);
    this.#outbox = new Outbox(
      this.#server,
      storage,
      now,
      1_000 * sendWithin,
      () => this.#consent(),
    );
    this.#outbox.schedule(0); // reports of an earlier process or page
  }

  /** Return whether the person agreed; undefined if the person was never asked. Ask only in that case. @returns {Promise<boolean | undefined>} */
  async consented() {
    return this.#withdrawn
      ? false
      : (await this.#storage.get("consent").catch(() => undefined))?.given;
  }

  /** Record that the person agrees, or withdraw and delete unsent reports. Return whether this is on disk. @param {boolean} given */
  async consent(given) {
    if (typeof given !== "boolean") throw new TypeError("consent is true or false");
    this.#withdrawn ||= !given;
    try {
      const before = await this.#storage.get("consent");
      if (given && (this.#withdrawn || !before?.given)) {
        await this.#storage.put("consent", { given, id: hex(random(16)) });
      }
      if (!given) await this.#storage.put("consent", { given });
      if (given) globalThis.navigator?.storage?.persist?.().catch(() => {});
      this.#withdrawn = !given;
      if (!given) await this.#outbox.waiting(); // deletes them
      return true;
    } catch {
      return false;
    }
  }

  /**
   * Randomize the answers to a survey, given by name or id, and queue the report. Call it for everyone,
   * whatever the true answer is. Rejects only with InvalidAnswer, for a name that the policy does not declare.
   * With `of: "ended"`, the answers are about the last round that is over, such as a total that the app counted in it.
   * @param {string} survey @param {Record<string, unknown>} answers @param {{of?: "today" | "ended"}} [options] @returns {Promise<Outcome>}
   */
  async answer(survey, answers, { of = "today" } = {}) {
    if (of !== "today" && of !== "ended") throw new TypeError('of is "ended", or left out');
    const undeclared = Object.keys(answers).find((name) => !this.#policy.questions.has(name));
    if (undeclared !== undefined) {
      throw new InvalidAnswer(
        `question ${undeclared} is not declared in the policy; nothing was recorded`,
      );
    }
    try {
      return await this.#answer(survey, answers, of === "ended");
    } catch (error) {
      return failure(error);
    }
  }

  /**
   * Describe a survey to a person: its questions, its purpose, and what it reveals. Without `shipped`, the survey that
   * ships with the app, it is read from the stored list. `texts` replaces sentences of `phrases.js`, for another language.
   * @param {string} survey @param {{shipped?: unknown, texts?: import("./description.js").Texts}} [options]
   * @returns {Promise<import("./description.js").Description | Outcome>}
   */
  async describe(survey, { shipped, texts } = {}) {
    try {
      const isShipped = shipped !== undefined;
      if (!isShipped && (await this.#consent()) === undefined) return { ...NO_CONSENT };
      const found = isShipped
        ? await this.#surveys.shipped(survey, shipped)
        : await this.#surveys.kept(survey);
      if ("status" in found) return found;
      return describe(found.id, found.survey, this.#policy, texts);
    } catch (error) {
      return failure(error);
    }
  }

  /**
   * Return the arm of an experiment that this device has drawn for a survey. Read it before you treat
   * anyone differently. Without consent or a list on disk, it is the first arm of the `shipped` survey.
   * @param {string} survey @param {unknown} [shipped] @returns {Promise<string | undefined>}
   */
  async arm(survey, shipped) {
    try {
      const found = await this.#consent() === undefined
        ? undefined
        : await this.#surveys.kept(survey, (listed) => this.#refusal(listed));
      if (found && !("status" in found)) return await this.#arm(found.id, found.survey);
    } catch {
      // the state is unusable: the first arm
    }
    const known = shipped === undefined
      ? undefined
      : await this.#surveys.shipped(survey, shipped).catch(() => undefined);
    if (!known || "status" in known) return undefined;
    return known.survey.labels.find((label) => label.drawn)?.listed[0];
  }

  /** Send the waiting reports, for at most this many seconds. Return how many still wait. */
  async flush(seconds = 2) {
    if (!(await this.#consent().catch(() => undefined))) return 0;
    let timer;
    const late = new Promise((resolve) => timer = setTimeout(resolve, 1_000 * seconds));
    await Promise.race([this.#outbox.send(true), late]);
    clearTimeout(timer); // otherwise a Node process would stay alive for it
    return this.#outbox.waiting().then((names) => names.length, () => 0);
  }

  /** Flush for a second and end the timer. Unsent reports stay on disk. */
  async close() {
    await this.flush(1);
    this.#outbox.close();
  }

  /** Erase everything except the ledger: erasing must not refill a budget. Return whether it succeeded. */
  async forget() {
    this.#withdrawn = true;
    try {
      const first = await this.#storage.get("consent") ? ["consent"] : []; // erased first, so that nothing is sent
      const names = await Promise.all(ERASABLE.map((prefix) => this.#storage.names(prefix)));
      for (const name of [...first, ...names.flat()]) await this.#storage.remove(name);
      return true;
    } catch {
      return false;
    }
  }

  /** Return the id of the current consent. */
  async #consent() {
    if (this.#withdrawn || overruled(this.#allowCi)) return undefined;
    const kept = await this.#storage.get("consent");
    return kept?.given === true ? String(kept.id) : undefined;
  }

  /** Check consent, survey and policy, charge the ledger, randomize and queue. Nothing depends on a value before the noise is drawn.
   * @param {string} wanted @param {Record<string, unknown>} answers @param {boolean} ended @returns {Promise<Outcome>} */
  async #answer(wanted, answers, ended) {
    const consent = await this.#consent();
    if (consent === undefined) return { ...NO_CONSENT };
    await this.#expire();
    const names = Object.keys(answers),
      found = await this.#surveys.find(wanted, (survey) => this.#obstacle(survey, names), ended);
    if ("status" in found) return found;
    const { id, survey } = found, round = survey.roundAt(this.#now(), ended);
    if (round === undefined) return { status: "closed", detail: "the round is over", survey: id };
    const costs = new Map(survey.questions.map((question) => [question.name, question.epsilon])),
      total = survey.epsilon; // not the cost of the drawn question: otherwise refusals would reveal the draw
    if ((await this.#consent()) !== consent) return { ...NO_CONSENT };
    const refusal = await charge(this.#storage, this.#policy, {
      survey: id,
      round,
      quarter: quarterOf(survey.beginOf(round)),
      name: survey.name,
      key: survey.signer,
      costs,
      total,
    });
    if (refusal) return { ...refusal, survey: id, round };
    const key = await this.#key(id, survey), arm = await this.#arm(id, survey);
    const clear = survey.labels.map((label) =>
      encodeLabel(label, label.drawn ? arm : this.#labels.get(label.name))
    );
    const values = survey.questions.map((question) => valueOf(answers, question.name));
    const { payloads, unfit } = await survey.report(values, this.#draw);
    const envelope = packEnvelope(id, round, await envelopeId(key, id, round), [
      ...clear,
      ...payloads,
    ]);
    if ((await this.#consent()) !== consent) { // withdrawn in the meantime: discard the report
      return { ...NO_CONSENT, survey: id, round };
    }
    await this.#outbox.queue(`${id}-${round}`, envelope, consent, survey.takenUntil(round));
    /** @type {Outcome} */
    const outcome = {
      status: "queued",
      detail: "a report is on disk and will be sent",
      survey: id,
      round,
    };
    return Object.defineProperty(outcome, "unfit", { value: unfit });
  }

  /** Return the key of a survey, which is created on first use. @param {string} id @param {import("./surveys.js").Survey} survey */
  async #key(id, survey) {
    await this.#storage.create(`key-${id}`, { key: hex(random(32)), until: survey.keyUntil });
    return unhex((await this.#storage.get(`key-${id}`)).key);
  }

  /** Return the arm that the key of a survey draws. @param {string} id @param {import("./surveys.js").Survey} survey */
  async #arm(id, survey) {
    const label = survey.labels.find((label) => label.drawn);
    if (!label) return undefined;
    const key = await this.#key(id, survey);
    return await drawnArm(label, (text) => hmac(key, text));
  }

  /** Return why the app must not answer a survey, from names, kinds and caps alone. @param {import("./surveys.js").Survey} survey @param {string[]} names */
  #obstacle(survey, names) {
    if (survey.epsilon > this.#policy.roundCap) {
      return "the survey asks for more than maxEpsilonPerRound";
    }
    const asked = survey.questions.map((question) => question.name);
    if (asked.length !== names.length || !asked.every((name) => names.includes(name))) {
      return `the survey needs an answer to each of its questions: ${asked.join(", ")}`;
    }
    return this.#refusal(survey);
  }

  /** Return why the policy refuses a survey's questions or labels. @param {import("./surveys.js").Survey} survey */
  #refusal(survey) {
    const label = survey.labels.find(({ name, drawn }) =>
      !drawn && !this.#policy.labels.includes(name)
    );
    if (label) return `the survey sends the label ${label.name}, which the app forbids`;
    const other = survey.questions.find((question) =>
      this.#policy.questions.get(question.name) !== question.kind
    );
    return other &&
      `question ${other.name} is asked as a ${other.kind}, and the app declares another kind`;
  }

  /** Delete the keys of surveys that accept no further reports, so that reports cannot be traced to this device. */
  async #expire() {
    const names = await Promise.all(
      ["key-", "closed-"].map((prefix) => this.#storage.names(prefix)),
    );
    for (const name of names.flat()) {
      if ((await this.#storage.get(name))?.until <= this.#now()) await this.#storage.remove(name);
    }
  }
}

/** @param {number} count */
const random = (count) => crypto.getRandomValues(new Uint8Array(count));

/** Draw from the kernel, at most 65,536 bytes per call. No random bytes are kept. @param {number} count */
function kernelDraw(count) {
  const bytes = new Uint8Array(count);
  for (let start = 0; start < count; start += 65_536) {
    crypto.getRandomValues(bytes.subarray(start, start + 65_536));
  }
  return new DataView(bytes.buffer);
}

/** Read an answer, even if its getter throws. @param {Record<string, unknown>} answers @param {string} name */
function valueOf(answers, name) {
  try {
    return answers[name];
  } catch {
    return undefined;
  }
}

/** The variables that continuous integration sets: its runs are not people. */
const ROBOTS = [
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

/** Return whether the environment or the browser refuses, whatever consent the app has recorded. @param {boolean} allowCi */
function overruled(allowCi) {
  const environment = globalThis.process?.env ?? {},
    browser = /** @type {any} */ (globalThis.navigator);
  const switches = [
    environment.DO_NOT_TRACK,
    environment.DENIABLE_OFF,
    ...(allowCi ? [] : ROBOTS.map((name) => environment[name])),
    browser?.doNotTrack,
    browser?.globalPrivacyControl,
  ];
  return switches.some((value) =>
    !["", "0", "false", "no", "off", "unspecified", "null", "undefined"].includes(
      String(value ?? "").trim().toLowerCase(),
    )
  );
}
