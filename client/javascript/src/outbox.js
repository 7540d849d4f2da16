/**
 * The outbox: envelopes stay on disk until the server has accepted or refused them. Each attempt sends
 * the same bytes, at a random moment and in random order: ten attempts at first, then one a day.
 *
 * A page has no time to read or write when it is left. So it keeps the bytes of the reports that it queued, and
 * counts one attempt in advance, on disk. When it is left or hidden, it sends them without delay, as `flush` does.
 */

import { contentType, isSealed } from "./envelope.js";
import { hex, unhex } from "./survey.js";
import { FINAL, MAX_REPLY_BYTES, MAX_TRIES, PASSING } from "./tables.js";
import { request } from "./transport.js";

const DAY = 86_400_000, MAX_PAUSE = 3_600_000;
/** Bytes that a browser sends after a page is left: at most 64 KiB, of which one ordinary request takes its part. */
const MAX_KEPT_BYTES = 2 ** 14, MAX_LEAVING_BYTES = 3 * 2 ** 14;

/**
 * @typedef {{body: string, invitation?: string}} Queued an envelope in hex, and the code of an invitation that is sent with it
 * @typedef {(report: string, reply: {status: number, json: any}) => unknown} Settled is called with the server's verdict on a report, which is named by its survey and round
 */

/** Draw a uniform number from 0 to a limit, from the kernel. @param {number} limit */
const uniform = (limit) => (limit * crypto.getRandomValues(new Uint32Array(1))[0]) / 2 ** 32;

export class Outbox {
  #server;
  #relay;
  #storage;
  #now;
  #within;
  #consent;
  #held;
  #settled;
  #failures = 0;
  #notBefore = 0; // requested by the server, on the monotonic clock; no flush shortens it
  #pausedUntil = 0;
  #last = Promise.resolve();
  /** @type {Map<string, Queued>} reports that this page may send once, when it is left */
  #leaving = new Map();
  #withdrawals = 0;
  /** @type {BroadcastChannel | undefined} */
  #pages;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /** @param {string} server @param {string | undefined} relay of sealed reports @param {import("./ledger.js").Storage} storage @param {() => number} now @param {number} within ms @param {(person: string) => Promise<string | undefined>} consent @param {() => boolean} held whether nothing may be sent now: a withdrawal is not on disk yet, or the environment overrules consent @param {Settled} settled */
  constructor(server, relay, storage, now, within, consent, held, settled) {
    this.#server = server;
    this.#relay = relay;
    this.#storage = storage;
    this.#now = now;
    this.#within = within;
    this.#consent = consent;
    this.#held = held;
    this.#settled = settled;
    if (!globalThis.document) return;
    this.#pages = new BroadcastChannel("deniable");
    this.#pages.onmessage = () => this.#stay(); // withdrawn on another page
    /** @type {any} */ (this.#pages).unref?.(); // in Node with a document of its own
    addEventListener("pagehide", () => this.#leave());
    addEventListener("pageshow", ({ persisted }) => persisted && this.#stay()); // it may have missed a withdrawal
    document.addEventListener("visibilitychange", () => document.hidden && this.#leave());
  }

  /** @param {string} name @param {Uint8Array<ArrayBuffer>} bytes @param {string} consent the id of the consent under which it was made @param {number} until @param {string} person the mark of a person; "" for the install itself @param {string} [invitation] a code */
  async queue(name, bytes, consent, until, person, invitation) {
    const withdrawals = this.#withdrawals;
    const due = this.#now() + uniform(this.#within);
    const body = hex(bytes);
    const report = { server: this.#server, person, consent, body, due, until, invitation };
    await this.#storage.create(`report-${name}`, report);
    if (this.#pages && (await this.#count(name, 1)) && withdrawals === this.#withdrawals) {
      this.#leaving.set(name, report);
    }
    this.schedule(0);
  }

  /** After a withdrawal, send nothing when this page or another is left. */
  stay() {
    this.#stay();
    this.#pages?.postMessage("stay");
  }

  #stay() {
    this.#withdrawals++;
    this.#leaving.clear();
  }

  /** Send what this page queued, as far as a browser sends it after the page. Nothing here waits. */
  #leave() {
    if (this.#held() || navigator.onLine === false || performance.now() < this.#notBefore) return;
    let size = 0;
    for (const name of shuffled([...this.#leaving.keys()])) {
      const report = /** @type {Queued} */ (this.#leaving.get(name));
      if ((size += report.body.length / 2) > MAX_LEAVING_BYTES) return;
      this.#post(name, report, true).catch(() => {}); // the state is unusable at the moment
    }
  }

  /** Return the reports that wait for this server. Delete those that are too late or whose consent was withdrawn. */
  async waiting() {
    const names = [], consents = new Map();
    for (const record of await this.#storage.names("report-")) {
      const name = record.slice(7), report = await this.#storage.get(record);
      const person = report?.person ?? "";
      if (!consents.has(person)) consents.set(person, await this.#consent(person));
      if (report && (report.consent !== consents.get(person) || report.until <= this.#now())) {
        await this.#forget(name);
      } else if (report?.server === this.#server) names.push(name);
    }
    return names;
  }

  /** Send one report that is due; in a hurry, send all of them without delay. @param {boolean} hurry */
  send(hurry) {
    this.#last = this.#last.then(() => this.#send(hurry)).catch(() => {}); // the state is unusable at the moment
    return this.#last;
  }

  /** @param {number} wait ms */
  schedule(wait) {
    this.close();
    this.#timer = setTimeout(() => this.send(false), Math.min(Math.max(wait, 1), DAY));
    /** @type {any} */ (this.#timer).unref?.(); // so that the timer does not keep a Node process alive
  }

  close() {
    clearTimeout(this.#timer);
  }

  /** Send the reports that are due. Without hurry, send one: the next waits for its own random moment. @param {boolean} hurry */
  async #send(hurry) {
    if (this.#held()) return this.schedule(MAX_PAUSE);
    let next = Infinity, tried = false;
    for (const name of shuffled(await this.waiting())) {
      const tries = (await this.#storage.names(`try-${name}-`)).length;
      const wait = tried && !hurry ? 0 : await this.#wait(name, tries, hurry);
      if (wait > 0 || (tried && !hurry)) next = Math.min(next, wait);
      else {
        tried = true;
        next = (await this.#try(name, tries)) ? next : 0;
      }
    }
    if (next < Infinity) {
      this.schedule(
        Math.max(next, this.#pausedUntil - performance.now()) + uniform(tried ? this.#within : 0),
      );
    }
  }

  /** Return the milliseconds until a report may be tried. @param {string} name @param {number} tries @param {boolean} hurry */
  async #wait(name, tries, hurry) {
    const few = tries < MAX_TRIES, record = few ? `report-${name}` : `try-${name}-${tries}`;
    const due = (await this.#storage.get(record))?.due - this.#now();
    const own = (few && hurry) || due > 2 * DAY ? 0 : due; // far away only if the clock was set back
    return Math.max(
      own,
      Math.max(this.#notBefore, hurry ? 0 : this.#pausedUntil) - performance.now(),
    );
  }

  /** Try to send a report, and return whether it is done. Only one tab or process counts an attempt, before it is made. @param {string} name @param {number} tries */
  async #try(name, tries) {
    if (this.#held() || globalThis.navigator?.onLine === false) return false;
    if (!(await this.#count(name, tries + 1))) return false;
    const report = await this.#storage.get(`report-${name}`);
    const consent = await this.#consent(report?.person ?? "");
    if (!report || report.consent !== consent) return true; // withdrawn in the meantime
    return this.#post(name, report, report.body.length / 2 <= MAX_KEPT_BYTES);
  }

  /** Count an attempt, and return whether no one else did. @param {string} name @param {number} number */
  #count(name, number) {
    const due = this.#now() + DAY + uniform(DAY / 2);
    return this.#storage.create(`try-${name}-${number}`, { due });
  }

  /** Make an attempt, and return whether the report is done. @param {string} name @param {Queued} report @param {boolean} keepalive */
  async #post(name, { body, invitation }, keepalive) {
    this.#leaving.delete(name);
    const bytes = unhex(body), address = isSealed(bytes) && this.#relay || this.#server;
    const code = invitation && { "Deniable-Invitation": invitation };
    const content = { headers: { "Content-Type": contentType(bytes), ...code }, bytes };
    const sent = request(address, "/v1/envelopes", content, MAX_REPLY_BYTES, keepalive);
    const reply = await sent.catch(() => undefined);
    if (!reply || !settles(reply)) return this.#fail(reply?.retryAfter);
    this.#failures = this.#pausedUntil = 0;
    // Not awaited: however long the app's function takes, and even if it fails, the report is done.
    Promise.resolve().then(() => this.#settled(name, reply)).catch(() => {});
    await this.#forget(name);
    return true;
  }

  /** Back off exponentially with full jitter, and never less than the server's Retry-After. @param {string | null | undefined} retryAfter */
  #fail(retryAfter) {
    const seconds = /^\d+$/.test(retryAfter ?? "")
      ? 1_000 * Number(retryAfter)
      : Date.parse(retryAfter ?? "") - Date.now();
    let asked = Math.min(Math.max(seconds || 0, 0), MAX_PAUSE);
    if (asked) asked += uniform(Math.max(asked, 60_000));
    const backoff = uniform(Math.min(MAX_PAUSE, 1_000 * 2 ** Math.min(this.#failures++, 20)));
    this.#notBefore = performance.now() + asked;
    this.#pausedUntil = performance.now() + Math.max(asked, backoff);
    return false;
  }

  /** @param {string} name */
  async #forget(name) {
    this.#leaving.delete(name);
    await this.#storage.remove(`report-${name}`);
    for (const record of await this.#storage.names(`try-${name}-`)) {
      await this.#storage.remove(record);
    }
  }
}

/** Return whether a reply is the server's final word on an envelope; a proxy's error page is not. @param {Awaited<ReturnType<typeof request>>} reply */
function settles({ status, json, type }) {
  if (status === 202) return json?.held === 1; // a relay has it on disk, and will forward it
  if (status !== 200) {
    return FINAL.includes(status) && /^application\/problem\+json *(;|$)/i.test(type) &&
      json?.status === status;
  }
  if (![json?.accepted, json?.duplicates].every(Number.isInteger) || !Array.isArray(json.refused)) {
    return false;
  }
  return json.refused.length
    ? json.refused[0]?.code !== undefined && !PASSING.includes(json.refused[0].code)
    : json.accepted + json.duplicates > 0;
}

/** @param {string[]} names */
function shuffled(names) {
  return names.map((name) => ({ name, key: uniform(1) })).sort((a, b) => a.key - b.key).map((
    { name },
  ) => name);
}
