/** Choice of a survey from the server's list. The list is the same for everyone. Only signed documents are parsed and kept. */

import { parseSurvey, Refused, sha256, Unusable, verify } from "./survey.js";
import { request } from "./transport.js";

const FRESH = 3_600_000, MAX_LIST_BYTES = 2 ** 25, MAX_LISTED = 1_000, MAX_PAUSE = 300_000;

/**
 * @typedef {ReturnType<typeof parseSurvey> & {signer: string}} Survey the public key that signed it, too
 * @typedef {{id: string, document: string, signature: string, key: string, state: string}} Listed
 * @typedef {Listed & {name: string, problem?: string}} Entry an entry with a problem has no document
 * @typedef {{id: string, survey: Survey} | {status: "refused" | "no-survey" | "closed", detail: string, survey?: string}} Choice
 * @typedef {{status: "unavailable", detail: string}} Unknown
 */

export class Surveys {
  /** @type {Map<string, Survey | string>} the verified survey, or the reason for its refusal, by id, since the last fetch */
  #judged = new Map();
  #failures = 0;
  #notBefore = 0;

  /** @param {string} server @param {import("./policy.js").Policy} policy @param {import("./ledger.js").Storage} storage @param {() => number} now */
  constructor(server, policy, storage, now) {
    this.#server = server;
    this.#policy = policy;
    this.#storage = storage;
    this.#now = now;
  }
  #server;
  #policy;
  #storage;
  #now;

  /**
   * Return the newest open survey with this name and without an obstacle, or the survey with this id; otherwise the reason.
   * @param {string} wanted @param {(survey: Survey) => string | undefined} obstacle @param {boolean} ended whether the last round that is over is answered
   */
  async find(wanted, obstacle, ended) {
    const name = `list-${await sha256(this.#server)}`, now = this.#now();
    const kept = await this.#storage.get(name);
    const fresh = kept && kept.fetched <= now && now < kept.fetched + FRESH;
    const choice = await this.#choose(kept?.surveys ?? [], wanted, obstacle, ended);
    if (fresh && !("status" in choice)) return choice;
    const fetched = await this.#fetch();
    if (!fetched) {
      if (fresh || !("status" in choice && choice.status === "no-survey")) return choice;
      throw new Unusable("the list of surveys could not be fetched; try again later");
    }
    this.#judged.clear();
    await this.#storage.put(name, { fetched: now, surveys: fetched });
    const again = await this.#choose(fetched, wanted, obstacle, ended);
    this.#pace("status" in again);
    return again;
  }

  /** Return a survey of the kept list, without a network; otherwise the reason. @param {string} wanted @returns {Promise<Choice | Unknown>} @param {(survey: Survey) => string | undefined} [obstacle] */
  async kept(wanted, obstacle = () => undefined) {
    const kept = await this.#storage.get(`list-${await sha256(this.#server)}`);
    return kept
      ? this.#choose(kept.surveys, wanted, obstacle, false)
      : { status: "unavailable", detail: "no list of surveys is stored yet" };
  }

  /** Return the survey that ships with the app, verified; otherwise the reason. @param {string} wanted @param {unknown} shipped @returns {Promise<Choice>} */
  async shipped(wanted, shipped) {
    const entry = parsedEntry(shipped);
    const survey = entry
      ? await this.#verified(entry)
      : "the shipped survey is not a signed survey";
    if (typeof survey === "string") return { status: "refused", detail: survey };
    if (entry && [entry.id, survey.name].includes(wanted)) return { id: entry.id, survey };
    return { status: "no-survey", detail: "another survey ships with the app" };
  }

  /** Slow down after fetches that do not help: no pause at first, then 2, 4, 8 ... seconds. @param {boolean} failed */
  #pace(failed) {
    this.#failures = failed ? this.#failures + 1 : 0;
    this.#notBefore = this.#failures > 1
      ? performance.now() + Math.min(MAX_PAUSE, 1_000 * 2 ** (this.#failures - 1))
      : 0;
  }

  /** @returns {Promise<Entry[] | undefined>} */
  async #fetch() {
    if (performance.now() < this.#notBefore) return undefined;
    const reply = await request(this.#server, "/v1/surveys", undefined, MAX_LIST_BYTES).catch(() =>
      undefined
    );
    const surveys = reply?.status === 200 ? reply.json?.surveys : undefined;
    if (!Array.isArray(surveys)) return void this.#pace(true);
    const listed = surveys.slice(0, MAX_LISTED).filter((entry) =>
      /^[0-9a-f]{64}$/.test(entry?.id) &&
      ["open", "closed"].includes(entry.state) &&
      [entry.document, entry.signature, entry.key].every((text) => typeof text === "string")
    );
    return Promise.all(listed.map((entry) => this.#signed(entry)));
  }

  /** Return what to keep of an entry: without a trusted signature, its claimed name and the reason. @param {Listed} entry @returns {Promise<Entry>} */
  async #signed({ id, state, document, signature, key }) {
    const nothing = { id, state, document: "", signature: "", key: "" };
    try {
      await verify({ id, document, signature, key }, this.#policy.keys);
      return {
        id,
        state,
        document,
        signature,
        key,
        name: String(JSON.parse(document).survey.name),
      };
    } catch (error) {
      if (error instanceof Unusable) throw error;
      const problem = error instanceof Refused ? error.message : "the document cannot be read";
      return { ...nothing, name: claimedName(document), problem };
    }
  }

  /** @param {Entry[]} entries @param {string} wanted @param {(survey: Survey) => string | undefined} obstacle @param {boolean} ended @returns {Promise<Choice>} */
  async #choose(entries, wanted, obstacle, ended) {
    const byId = /^[0-9a-f]{64}$/.test(wanted), now = this.#now();
    let problem = "", refused;
    const sound = [];
    for (const [position, entry] of entries.entries()) {
      if (wanted !== (byId ? entry.id : entry.name)) continue;
      const survey = await this.#judge(entry);
      if (typeof survey === "string") [problem, refused] = [survey, entry.id];
      else sound.push({ id: entry.id, survey, position, open: await this.#isOpen(entry, survey) });
    }
    if (refused && !sound.length) return { status: "refused", detail: problem, survey: refused };
    if (!sound.length) {
      return { status: "no-survey", detail: "the server lists no survey with this name or id" };
    }
    const open = sound.filter(({ open, survey }) =>
      open && survey.roundAt(now, ended) !== undefined
    );
    const fitting = open.filter(({ survey }) => obstacle(survey) === undefined);
    const [newest] = [fitting, open, sound].find((group) => group.length)
      ?.sort((a, b) => b.survey.opens - a.survey.opens || b.position - a.position) ?? [];
    if (fitting.length) return { id: newest.id, survey: newest.survey };
    if (open.length) {
      return { status: "refused", detail: obstacle(newest.survey) ?? "", survey: newest.id };
    }
    return {
      status: "closed",
      detail: ended
        ? "the survey has no ended round whose reports are still accepted, or was closed by its owner"
        : "the survey is not open today, or was closed by its owner",
      survey: newest.id,
    };
  }

  /** Remember closed surveys: the state is not signed, so a later list must not reopen them. @param {Entry} entry @param {Survey} survey */
  async #isOpen(entry, survey) {
    if (entry.state === "closed") {
      await this.#storage.create(`closed-${entry.id}`, { until: survey.closes });
    }
    return !(await this.#storage.get(`closed-${entry.id}`));
  }

  /** @param {Entry} entry @returns {Promise<Survey | string>} */
  async #judge(entry) {
    if (entry.problem !== undefined) return entry.problem;
    if (!this.#judged.has(entry.id)) this.#judged.set(entry.id, await this.#verified(entry));
    return /** @type {Survey | string} */ (this.#judged.get(entry.id));
  }

  /** @param {Listed} entry */
  async #verified(entry) {
    try {
      await verify(entry, this.#policy.keys);
      if (this.#policy.surveys?.includes(entry.id) === false) {
        return "the app's policy allows only other surveys";
      }
      return { ...parseSurvey(entry.document), signer: entry.key };
    } catch (error) {
      if (error instanceof Refused) return error.message;
      throw error;
    }
  }
}

/** Return a survey's entry from an object or JSON text; undefined if it is malformed. @param {any} shipped @returns {Listed | undefined} */
function parsedEntry(shipped) {
  try {
    const entry = typeof shipped === "string" ? JSON.parse(shipped) : shipped;
    const texts = [entry.id, entry.document, entry.signature, entry.key];
    return texts.every((text) => typeof text === "string") ? entry : undefined;
  } catch {
    return undefined;
  }
}

/** Return the name that an unverified document claims, without parsing it. @param {string} document */
const claimedName = (document) =>
  String(/"name"\s*:\s*"([^"\\]{1,64})"/.exec(document.slice(0, 1_000))?.[1] ?? "");
