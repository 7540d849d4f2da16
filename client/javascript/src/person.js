/** One person who uses an app: their consent, ledger, keys and answers. */

import { envelopeId, hmac, joined, packEnvelope } from "./envelope.js";
import { drawnArm, encodeLabel } from "./labels.js";
import { ALREADY, charge, isAnswered, overspent, readLedger } from "./ledger.js";
import { drawnRounds } from "./participation.js";
import { chargedQuarter, quarterOfRound } from "./quarters.js";
import { seal } from "./seal.js";
import { hex, unhex, Unusable } from "./survey.js";

/**
 * @typedef {import("./tables.js").Status} Status
 * @typedef {{payloads: Uint8Array[], rolls: DataView[]}} Draws the parts of a report, and all random bytes behind them in the order in which they were drawn
 * @typedef {{status: Status, detail: string, survey?: string, round?: number, unfit?: readonly string[], draws?: Draws}} Outcome
 *   contains no answer and may be logged; `unfit` names the questions whose answers did not fit, and is not enumerable; neither is `draws`
 * @typedef {{of?: "today" | "ended", draws?: boolean, invitation?: string, shipped?: unknown}} Options
 * @typedef {{mark: string, storage: import("./ledger.js").Storage}} Place where a person's records are; `mark` begins the names of their reports
 * @typedef {typeof import("./words.js")} Words
 * @typedef {import("./surveys.js").Found} Found
 * @typedef {import("./surveys.js").Survey} Survey
 *
 * @typedef {object} Core what the people of a client share
 * @property {import("./policy.js").Policy} policy
 * @property {import("./ledger.js").Storage} storage
 * @property {() => number} now
 * @property {import("./mechanisms.js").Draw} draw
 * @property {import("./surveys.js").Surveys} surveys
 * @property {import("./outbox.js").Outbox} outbox
 * @property {boolean} isRelayed whether reports leave through a relay, so that only sealed surveys are answered
 * @property {() => boolean} isOverruled whether the environment refuses, whatever consent the app has recorded
 * @property {Words} [words] code that is loaded when it is first used, if absent
 * @property {Set<string>} withdrawn the marks of people whose withdrawal holds even if the disk fails
 * @property {Set<string>} unwritten the ids of people whose withdrawal is not on disk yet; until then nothing is sent for anyone
 */

export const NO_CONSENT = /** @type {const} */ ({
  status: "no-consent",
  detail: "consent was not given; call client.consent(true) once the person agrees",
});

/** @param {unknown} error @returns {Outcome} */
export const failure = (error) => ({
  status: "unavailable",
  detail: error instanceof Unusable ? error.message : "the client failed; nothing was sent",
});

/** Return the code of `describe` and `budget`, without which a bundle for pages is smaller. @param {Words} [words] */
export const loaded = async (words) =>
  words ?? await import("./words.js").catch(() => {
    throw new Unusable(
      "describe and budget could not be loaded; in a service worker, pass `words` to the client",
    );
  });

/** An error for a question that the app's own policy does not declare. It never contains the answer. */
export class InvalidAnswer extends Error {}

/** The beginnings of the names of a person's own records. The ledger's are not among them. */
const PERSONAL = ["key-", "kept-", "participation"];

export class Person {
  #core;
  #labels;
  #id;

  /** @param {Core} core @param {Map<string, string>} labels @param {string} [id] absent for the install's own person */
  constructor(core, labels, id) {
    this.#core = core;
    this.#labels = labels;
    this.#id = id;
  }

  /** Return whether the person agreed; undefined if the person was never asked. Ask only in that case. @returns {Promise<boolean | undefined>} */
  async consented() {
    try {
      const place = await placeOf(this.#core.storage, this.#id);
      if (this.#core.unwritten.has(this.#id ?? "")) return false;
      if (!place) return undefined;
      if (this.#core.withdrawn.has(place.mark)) return false;
      return (await place.storage.get("consent"))?.given;
    } catch {
      return false; // the person may have refused
    }
  }

  /** Record that the person agrees, or withdraw and delete unsent reports. Return whether this is on disk. @param {boolean} given */
  async consent(given) {
    if (typeof given !== "boolean") throw new TypeError("consent is true or false");
    const { withdrawn, unwritten, outbox } = this.#core;
    if (!given) this.#hold();
    try {
      const { mark, storage } = await madePlace(this.#core.storage, this.#id);
      if (!given) withdrawn.add(mark);
      const before = await storage.get("consent");
      if (!given) {
        await storage.put("consent", { given });
        await removeAll(storage, ["kept-"]);
        await outbox.waiting(); // deletes the person's
      } else if (withdrawn.has(mark) || !before?.given) {
        await keyOf({ mark, storage }); // first, so that a call in a round that is not drawn writes nothing
        await storage.put("consent", { given, id: hex(random(16)) });
        globalThis.navigator?.storage?.persist?.().catch(() => {});
      }
      if (given) withdrawn.delete(mark);
      unwritten.delete(this.#id ?? "");
      return true;
    } catch {
      return false;
    }
  }

  /**
   * Randomize the answers to a survey, given by name or id, and queue the report. Call it for everyone,
   * whatever the true answer is. Rejects only with InvalidAnswer, for a name that the policy does not declare.
   * With `of: "ended"`, the answers are about the last round that is over, such as a total that the app counted in it.
   * With `draws: true`, a queued outcome has the draws of this report, to show them to the person. Never store, log or send
   * them: together with what was sent, they reveal the answer. They are returned once the report is on disk, so that
   * whether it leaves cannot depend on them. `invitation` is the code of a survey by invitation. `shipped` is the survey
   * that ships with the page; it is used if no list of surveys is stored and none can be fetched.
   * @param {string} survey @param {Record<string, unknown>} answers @param {Options} [options] @returns {Promise<Outcome>}
   */
  async answer(survey, answers = {}, options = {}) {
    const { of = "today" } = options;
    if (of !== "today" && of !== "ended") throw new TypeError('of is "ended", or left out');
    const undeclared = Object.keys(answers).find((name) => !this.#core.policy.questions.has(name));
    if (undeclared !== undefined) {
      throw new InvalidAnswer(
        `question ${undeclared} is not declared in the policy; nothing was recorded`,
      );
    }
    try {
      return await this.#answer(survey, answers, of === "ended", options);
    } catch (error) {
      return failure(error);
    }
  }

  /**
   * Return the arm of an experiment that this device has drawn for a survey. Read it before you treat
   * anyone differently. Without a list on disk, it is drawn for the `shipped` survey. Without consent it is the
   * first arm of the `shipped` survey. It is undefined if no survey is known, or the state cannot be used.
   * @param {string} survey @param {unknown} [shipped] @returns {Promise<string | undefined>}
   */
  async arm(survey, shipped) {
    const { surveys, policy, now } = this.#core;
    try {
      const place = await this.#consented();
      const listed = place && await surveys.kept(survey, (listed) => policy.refusal(listed));
      const ours = shipped === undefined ? undefined : await surveys.shipped(survey, shipped);
      const found = [listed, ours].find((choice) => choice && !("status" in choice));
      if (!found || "status" in found) return undefined;
      return place && now() < found.survey.keyUntil
        ? await armOf(place, found)
        : found.survey.labels.find((label) => label.drawn)?.listed[0];
    } catch {
      return undefined; // the state is unusable, so the arm that reports carry is unknown
    }
  }

  /** Return the ε spent and left, in total and by question, and when the next answers are possible. Needs no network. */
  async budget() {
    const core = this.#core;
    try {
      const { budgetOf } = await loaded(core.words);
      const ledger = { isAnswered, overspent, readLedger, drawnRounds, keyOf, chargeOf };
      const place = await placeOf(core.storage, this.#id);
      return await budgetOf(core, ledger, place?.storage, await this.#consented());
    } catch (error) {
      return failure(error);
    }
  }

  /** Erase the person's keys, unsent reports and consent. The ledger stays: erasing must not refill a budget. Return whether it succeeded. */
  async forget() {
    const { storage, withdrawn, unwritten } = this.#core;
    this.#hold();
    try {
      const place = await placeOf(storage, this.#id);
      if (!place) return unwritten.delete(this.#id ?? "");
      withdrawn.add(place.mark);
      if (await place.storage.get("consent")) await place.storage.remove("consent"); // first, so that nothing is sent
      await removeAll(storage, [`report-${place.mark}`, `try-${place.mark}`], place.mark);
      await removeAll(place.storage, PERSONAL);
      return unwritten.delete(this.#id ?? "");
    } catch {
      return false;
    }
  }

  /** Send nothing more, even before the withdrawal is on disk. */
  #hold() {
    const { withdrawn, unwritten, outbox } = this.#core;
    unwritten.add(this.#id ?? "");
    if (this.#id === undefined) withdrawn.add("");
    outbox.stay();
  }

  /** Return where the person's records are, with the id of their consent; undefined without consent. */
  async #consented() {
    const { unwritten, isOverruled, withdrawn, storage } = this.#core;
    if (unwritten.has(this.#id ?? "") || isOverruled()) return undefined;
    const place = await placeOf(storage, this.#id);
    const consent = place && await consentAt(withdrawn, place);
    return consent === undefined ? undefined : { .../** @type {Place} */ (place), consent };
  }

  /** Return whether a consent still holds. @param {Place & {consent: string}} place */
  async #consents({ consent }) {
    return (await this.#consented())?.consent === consent;
  }

  /** Check consent, survey and policy, charge the ledger, randomize and queue. Nothing depends on a value before the noise is drawn.
   * @param {string} wanted @param {Record<string, unknown>} answers @param {boolean} ended @param {Options} options @returns {Promise<Outcome>} */
  async #answer(wanted, answers, ended, options) {
    const core = this.#core, place = await this.#consented();
    if (!place) return { ...NO_CONSENT };
    await expire(place.storage, core.now());
    const names = Object.keys(answers);
    /** @param {Survey} survey */
    const obstacle = (survey) =>
      core.isRelayed && survey.sealedTo === undefined
        ? "the survey is not sealed, and this client sends through a relay"
        : survey.byInvitation && !/^[a-z2-7]{26}$/.test(options.invitation ?? "")
        ? "the survey is by invitation, and this client has no valid code"
        : core.policy.obstacle(survey, names, ended);
    const settle = (/** @type {Found} */ known, now = core.now()) =>
      this.#refusal(place, known, known.survey.roundAt(now, ended), now);
    const { shipped } = options;
    const found = await core.surveys.find(wanted, obstacle, ended, settle, shipped);
    if ("status" in found) return found;
    if (!(await this.#consents(place))) return { ...NO_CONSENT };
    const kept = await this.#charged(place, found, ended);
    return "status" in kept ? kept : this.#queued(place, found, answers, kept, options);
  }

  /** Return why the ledger or the draw of rounds allows no report now. @param {Place & {consent: string}} place @param {Found} found @param {number | undefined} round @param {number} now @returns {Promise<Outcome | undefined>} */
  async #refusal(place, found, round, now) {
    const { id, survey, same } = found, { policy } = this.#core;
    if (round === undefined) return { status: "closed", detail: "the round is over", survey: id };
    /** @param {Status} status @param {string} detail */
    const outcome = (status, detail) => ({ status, detail, survey: id, round });
    const drawn = await drawnRounds(survey, round, policy, () => keyOf(place));
    if (drawn && !drawn.drawn.includes(survey.spanOf(round))) {
      const many = `${drawn.drawn.length} of the ${drawn.rounds.length} rounds`;
      const quarter = quarterOfRound(survey, round);
      return outcome(
        "not-drawn",
        `this install answers in ${many} that begin in ${quarter}, and not in this one`,
      );
    }
    const sums = await readLedger(place.storage, chargedQuarter(survey, round, now));
    for (const other of same) {
      if (await isAnswered(place.storage, other, round)) {
        return outcome("already-answered", `${ALREADY}, under another id`);
      }
    }
    if (!(await isAnswered(place.storage, id, survey.spanOf(round)))) {
      const over = overspent(sums, chargeOf(found, round, now), policy);
      return over === undefined ? undefined : outcome("budget-spent", over);
    }
    return await keptReport(place, id, survey, round)
      ? undefined
      : outcome("already-answered", survey.repeatRounds > 1 ? `${ALREADY}, or ${LOST}` : ALREADY);
  }

  /** Charge the round, or mark it as one that sends the kept report again, until no other process does so at the same time.
   * @param {Place & {consent: string}} place @param {Found} found @param {boolean} ended @returns {Promise<Outcome | {round: number, payload?: Uint8Array}>} */
  async #charged(place, found, ended) {
    const { id, survey } = found, now = this.#core.now(); // once: a round may end between two looks
    const number = survey.roundAt(now, ended), round = Number(number);
    for (;;) {
      const refusal = await this.#refusal(place, found, number, now);
      if (refusal) return refusal;
      if (!(await isAnswered(place.storage, id, survey.spanOf(round)))) {
        const { policy } = this.#core;
        const refused = await charge(
          place.storage,
          policy,
          chargeOf(found, round, now),
        );
        if (!refused) return { round };
        if (refused.status === "budget-spent") return { ...refused, survey: id, round };
      } else {
        const payload = await keptReport(place, id, survey, round);
        if (payload && await markUsed(place, id, survey, round)) return { round, payload };
      }
    }
  }

  /** Randomize unless a report is sent again, and queue the report.
   * @param {Place & {consent: string}} place @param {Found} found @param {Record<string, unknown>} answers
   * @param {{round: number, payload?: Uint8Array}} charged @param {Options} options @returns {Promise<Outcome>} */
  async #queued(place, { id, survey }, answers, { round, payload }, { draws, invitation }) {
    const { draw, outbox } = this.#core;
    const key = await surveyKey(place, id, survey), arm = await armOf(place, { id, survey });
    const clear = survey.labels.map((label) =>
      encodeLabel(label, label.drawn ? arm : this.#labels.get(label.name))
    );
    const values = survey.questions.map((question) => valueOf(answers, question.name));
    const rolls = /** @type {DataView[]} */ ([]);
    const made = payload
      ? undefined
      : await survey.report(values, (bytes) => (rolls[rolls.length] = draw(bytes)));
    const report = payload ?? joined(...made?.payloads ?? []);
    const envelope = packEnvelope(id, round, await envelopeId(key, id, round), [...clear, report]);
    const packed = survey.sealedTo === undefined ? envelope : await seal(envelope, survey.sealedTo);
    if (!(await this.#consents(place))) { // withdrawn in the meantime: discard the report
      return { ...NO_CONSENT, survey: id, round };
    }
    if (made && survey.repeatRounds > 1) await keep(place, id, survey, round, report);
    const name = `${place.mark}${id}-${round}`;
    const until = survey.takenUntil(round), code = survey.byInvitation ? invitation : undefined;
    await outbox.queue(name, packed, place.consent, until, place.mark, code);
    /** @type {Outcome} */
    const outcome = {
      status: "queued",
      detail: "a report is on disk and will be sent",
      survey: id,
      round,
    };
    return Object.defineProperties(outcome, {
      unfit: { value: made?.unfit ?? [] },
      draws: { value: draws && made && { payloads: made.payloads, rolls } },
    });
  }
}

const LOST = "the report that its rounds share is no longer kept, and no other is drawn";

/** @param {Found} found @param {number} round @param {number} now @returns {import("./ledger.js").Charge} */
const chargeOf = ({ id, survey, key }, round, now) => ({
  survey: id,
  round: survey.spanOf(round),
  quarter: chargedQuarter(survey, round, now),
  name: survey.name,
  key,
  costs: new Map(survey.questions.map((question) => [question.name, question.epsilon])),
  total: survey.epsilon, // not the cost of the drawn question: otherwise refusals would reveal the draw
});

// Reports that several rounds share: drawn and kept by the call that has charged the first of them

/** @param {string} id @param {Survey} survey @param {number} round */
const keptName = (id, survey, round) => `kept-${id}-${survey.spanOf(round)}`;

/** @param {Place} place @param {string} id @param {Survey} survey @param {number} round @param {Uint8Array} payload */
async function keep(place, id, survey, round, payload) {
  const record = { payload: hex(payload), until: survey.spanEnds(round) };
  await place.storage.create(keptName(id, survey, round), record);
  await markUsed(place, id, survey, round);
}

/** Return the report to send again in a later round, unless it is lost or the round was used. @param {Place} place @param {string} id @param {Survey} survey @param {number} round */
async function keptReport({ storage }, id, survey, round) {
  const name = keptName(id, survey, round), kept = await storage.get(name);
  const used = (await storage.names(`${name}-`)).map((record) =>
    Number(record.slice(name.length + 1))
  );
  return kept && used.length && used.every((before) => before < round)
    ? unhex(kept.payload)
    : undefined;
}

/** Mark a round as one whose report was queued, and return whether this call did. @param {Place} place @param {string} id @param {Survey} survey @param {number} round */
const markUsed = ({ storage }, id, survey, round) =>
  storage.create(`${keptName(id, survey, round)}-${round}`, { until: survey.spanEnds(round) });

// Keys

/** Return the key of a survey, which is created on first use. @param {Place} place @param {string} id @param {Survey} survey */
async function surveyKey({ storage }, id, survey) {
  await storage.create(`key-${id}`, { key: hex(random(32)), until: survey.keyUntil });
  return unhex((await storage.get(`key-${id}`)).key);
}

/** Return the arm that the key of a survey draws. @param {Place} place @param {{id: string, survey: Survey}} found */
async function armOf(place, { id, survey }) {
  const label = survey.labels.find((label) => label.drawn);
  if (!label) return undefined;
  const key = await surveyKey(place, id, survey);
  return await drawnArm(label, (text) => hmac(key, text));
}

/** Return the key that draws the rounds which a person answers. @param {Place} place */
async function keyOf({ storage }) {
  const kept = await storage.get("participation");
  if (kept) return unhex(kept.key);
  await storage.create("participation", { key: hex(random(32)) });
  return unhex((await storage.get("participation")).key);
}

// Where the records of people are

/** Return the id of a person's consent. @param {Set<string>} withdrawn @param {Place} place */
export async function consentAt(withdrawn, { mark, storage }) {
  if (withdrawn.has(mark)) return undefined;
  const kept = await storage.get("consent");
  return kept?.given === true ? String(kept.id) : undefined;
}

/** Return where a person's records are; undefined if no person with an id is known. @param {import("./ledger.js").Storage} storage @param {string} [id] @returns {Promise<Place | undefined>} */
async function placeOf(storage, id) {
  if (id === undefined) return { mark: "", storage };
  const people = await storage.get("people");
  if (!people) return undefined;
  const mac = await hmac(unhex(people.key), "person\0", id);
  return placeAt(storage, `p${hex(mac.slice(0, 16))}-`);
}

/** @param {import("./ledger.js").Storage} storage @param {string} mark @returns {Place} */
export const placeAt = (storage, mark) => ({
  mark,
  storage: mark ? storage.within?.(mark) ?? prefixed(storage, mark) : storage,
});

/** Return where a person's records are, after making the key that hides people's ids. @param {import("./ledger.js").Storage} storage @param {string} [id] */
async function madePlace(storage, id) {
  if (id !== undefined && !(await storage.get("people"))) {
    if ((await storage.names("p")).some((name) => MARKED.test(name))) {
      throw new Unusable("the key of the people is lost, and with it their ledgers");
    }
    await storage.create("people", { key: hex(random(32)) });
  }
  return /** @type {Place} */ (await placeOf(storage, id));
}

const MARKED = /^p[0-9a-f]{32}-/;

/** Return the marks of all people with an id. @param {import("./ledger.js").Storage} storage */
export const marksIn = async (storage) =>
  new Set(
    (await storage.names("p")).filter((name) => MARKED.test(name)).map((name) => name.slice(0, 34)),
  );

/** Return the records whose names begin with a mark. @param {import("./ledger.js").Storage} storage @param {string} mark @returns {import("./ledger.js").Storage} */
const prefixed = (storage, mark) => ({
  get: (name) => storage.get(mark + name),
  create: (name, value) => storage.create(mark + name, value),
  put: (name, value) => storage.put(mark + name, value),
  remove: (name) => storage.remove(mark + name),
  names: async (prefix) =>
    (await storage.names(mark + prefix)).map((name) => name.slice(mark.length)),
});

/** Delete what links reports to this device, once a survey accepts no further reports or a kept report is not sent again. @param {import("./ledger.js").Storage} storage @param {number} now */
export async function expire(storage, now) {
  const names = await Promise.all(
    ["key-", "kept-", "closed-"].map((prefix) => storage.names(prefix)),
  );
  for (const name of names.flat()) {
    if ((await storage.get(name))?.until <= now) await storage.remove(name);
  }
}

/** Remove the records with these prefixes. Without a mark, those of the install's own person. @param {import("./ledger.js").Storage} storage @param {string[]} prefixes @param {string} [mark] */
export async function removeAll(storage, prefixes, mark = "") {
  for (const prefix of prefixes) {
    for (const name of await storage.names(prefix)) {
      if (mark || !OF_OTHERS.test(name)) await storage.remove(name);
    }
  }
}

const OF_OTHERS = /^(report|try)-p/;

/** @param {number} count */
const random = (count) => crypto.getRandomValues(new Uint8Array(count));

/** Read an answer, even if its getter throws. @param {Record<string, unknown>} answers @param {string} name */
function valueOf(answers, name) {
  try {
    return answers[name];
  } catch {
    return undefined;
  }
}
