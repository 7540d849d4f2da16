/** The client: an app calls it to let its users answer surveys without revealing their answers. */

import { switches } from "./environment.js";
import { Outbox } from "./outbox.js";
import {
  consentAt,
  expire,
  failure,
  loaded,
  marksIn,
  NO_CONSENT,
  Person,
  placeAt,
  removeAll,
} from "./person.js";
import { checkedLabels } from "./policy.js";
import { Surveys } from "./surveys.js";
import { checkedAddress } from "./transport.js";

/** @typedef {import("./person.js").Outcome} Outcome */

/** The beginnings of the names of records that belong to no person. A storage may hold other things, too. */
const SHARED = ["report-", "try-", "closed-", "list-", "temporary-"];
const MAX_ID_CHARACTERS = 1_000, DAY = 86_400_000;

/** One install of an app. It is also the install's own person, who has no id. */
export class Client extends Person {
  #core;
  #labels;
  #swept = -1; // the day on which the keys of all people were last looked at

  /**
   * @param {string} server
   * @param {{policy: import("./policy.js").Policy, storage: import("./ledger.js").Storage, now?: () => number, draw?: import("./mechanisms.js").Draw, sendWithin?: number, relay?: string, allowCi?: boolean, labels?: Record<string, string>, words?: import("./person.js").Words, settled?: import("./outbox.js").Settled}} options
   *   `sendWithin`: a report is sent at a random moment within this many seconds;
   *   `relay`: the address for sealed reports and the list of surveys; a survey that is not sealed is then refused;
   *   `allowCi`: answer also in continuous integration, whose runs are not people;
   *   `labels`: public properties, like { version: "3.0.1" }; never set one from an answer;
   *   `words`: the module "deniable/words", in a service worker, where browsers do not allow loading it later;
   *   `settled` is called when the server has accepted or refused a report
   */
  constructor(
    server,
    {
      policy,
      storage,
      now = Date.now,
      draw = kernelDraw,
      sendWithin = 60,
      relay,
      allowCi = false,
      labels = {},
      words,
      settled = () => {},
    },
  ) {
    const address = checkedAddress(server);
    const through = relay == null ? undefined : checkedAddress(relay); // null, too
    const own = checkedLabels(policy, labels);
    const withdrawn = /** @type {Set<string>} */ (new Set());
    const isOverruled = () => overruled(allowCi);
    /** @param {string} mark @returns {Promise<string | undefined>} */
    const consent = (mark) => consentAt(withdrawn, placeAt(storage, mark));
    const unwritten = /** @type {Set<string>} */ (new Set());
    const held = () => unwritten.size > 0 || isOverruled();
    const within = 1_000 * sendWithin;
    const outbox = new Outbox(address, through, storage, now, within, consent, held, settled);
    const surveys = new Surveys(through ?? address, policy, storage, now);
    const core = {
      policy,
      storage,
      now,
      draw,
      surveys,
      outbox,
      isRelayed: through !== undefined,
      isOverruled,
      withdrawn,
      unwritten,
      words,
    };
    super(core, own);
    this.#core = core;
    this.#labels = own;
    outbox.schedule(0); // reports of an earlier process or page
  }

  /**
   * Return one person of the many who share this client, by the app's id for them. Each has a ledger, consent, keys and
   * reports of their own. Only a keyed hash of the id is stored. `labels` replace those of the client that have the same names.
   * @param {string} id @param {{labels?: Record<string, string>}} [options]
   */
  person(id, { labels = {} } = {}) {
    if (typeof id !== "string") throw new TypeError("a person's id must be text");
    if (!id || [...id].length > MAX_ID_CHARACTERS || /\p{Cs}/u.test(id)) {
      throw new InvalidPerson(
        `a person's id is Unicode text of 1 to ${MAX_ID_CHARACTERS} characters`,
      );
    }
    const own = checkedLabels(this.#core.policy, labels);
    return new Person(this.#core, new Map([...this.#labels, ...own]), id);
  }

  /** Fetch the list of surveys before the first answer, if consent is given. Return whether a fresh list is on disk. */
  async prefetch() {
    try {
      return await this.#anyConsent() && await this.#core.surveys.prefetch();
    } catch {
      return false;
    }
  }

  /**
   * Describe a survey to a person: its questions, its purpose, and what it reveals. Without `shipped`, the survey that
   * ships with the app, it is read from the stored list. `language`, a tag such as "de-AT", chooses the survey's own texts, and
   * `texts` replaces sentences of `phrases.js`. Neither changes anything that is sent.
   * @param {string} survey @param {{shipped?: unknown, texts?: import("./description.js").Texts, language?: string}} [options]
   * @returns {Promise<import("./description.js").Description | Outcome>}
   */
  async describe(survey, { shipped, texts, language } = {}) {
    try {
      const { surveys, policy, words } = this.#core, isShipped = shipped !== undefined;
      if (!isShipped && !(await this.#anyConsent())) return { ...NO_CONSENT };
      const found = isShipped ? await surveys.shipped(survey, shipped) : await surveys.kept(survey);
      if ("status" in found) return found;
      const { describe } = await loaded(words);
      return describe(found.id, found.survey, policy, texts, language);
    } catch (error) {
      return failure(error);
    }
  }

  /** Send the waiting reports, for at most this many seconds. Return how many still wait. */
  async flush(seconds = 2) {
    await this.#sweep();
    let timer;
    const late = new Promise((resolve) => timer = setTimeout(resolve, 1_000 * seconds));
    await Promise.race([this.#core.outbox.send(true), late]);
    clearTimeout(timer); // otherwise a Node process would stay alive for it
    return this.#core.outbox.waiting().then((names) => names.length, () => 0);
  }

  /** Flush for a second and end the timer. Unsent reports stay on disk. */
  async close() {
    await this.flush(1);
    this.#core.outbox.close();
  }

  /** Erase everything except the ledgers and the data of other people. Return whether it succeeded. @override */
  async forget() {
    const { storage } = this.#core, own = await super.forget();
    return removeAll(storage, SHARED).then(() => own, () => false);
  }

  /** Return whether anyone has given consent. */
  async #anyConsent() {
    const { storage, withdrawn, isOverruled } = this.#core;
    if (isOverruled()) return false;
    for (const mark of ["", ...await marksIn(storage)]) {
      if (await consentAt(withdrawn, placeAt(storage, mark)) !== undefined) return true;
    }
    return false;
  }

  /** Delete the expired keys of all people, once a day. */
  async #sweep() {
    const { storage, now } = this.#core, today = Math.floor(now() / DAY);
    if (this.#swept === today) return;
    this.#swept = today;
    try {
      for (const mark of await marksIn(storage)) {
        await expire(placeAt(storage, mark).storage, now());
      }
    } catch {
      // the state is unusable at the moment
    }
  }
}

/** An error for an id of a person that cannot be used. */
export class InvalidPerson extends TypeError {}

/** Draw from the kernel, at most 65,536 bytes per call. No random bytes are kept. @param {number} count */
function kernelDraw(count) {
  const bytes = new Uint8Array(count);
  for (let start = 0; start < count; start += 65_536) {
    crypto.getRandomValues(bytes.subarray(start, start + 65_536));
  }
  return new DataView(bytes.buffer);
}

const IS_OFF = /^(0|false|no|off|unspecified|null|undefined)?$/i;

/** Return whether the environment or the browser refuses, whatever consent the app has recorded. @param {boolean} allowCi */
export function overruled(allowCi) {
  const browser = /** @type {any} */ (globalThis.navigator);
  const signals = [...switches(allowCi), browser?.doNotTrack, browser?.globalPrivacyControl];
  return signals.some((value) => !IS_OFF.test(String(value ?? "").trim()));
}
