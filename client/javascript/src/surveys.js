/** Choice of a survey from the server's list. The list is the same for everyone. Only signed documents are parsed and kept. */

import { checkSealing } from "./seal.js";
import { parseSurvey, Refused, sha256, Unusable, verify } from "./survey.js";
import {
  FRESH_SECONDS,
  MAX_LIST_BYTES,
  MAX_LISTED,
  MAX_NAME_OFFSET,
  MAX_PAUSE_SECONDS,
} from "./tables.js";
import { request } from "./transport.js";

/**
 * @typedef {ReturnType<typeof parseSurvey>} Survey
 * @typedef {{id: string, document: string, signature: string, key: string, state: string}} Listed
 * @typedef {Listed & {name: string, problem?: string}} Entry an entry with a problem has no document
 * @typedef {{id: string, survey: Survey, key: string, same: string[]}} Found `key` signed it; `same` are other surveys of its name that ask the same
 * @typedef {Found | {status: "refused" | "no-survey" | "closed", detail: string, survey?: string}} Choice
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
   * A list that is not fresh is fetched again, unless `settle` decides without it: each fetch tells the server that the app is used.
   * @template Outcome @param {string} wanted @param {(survey: Survey) => string | undefined} obstacle
   * @param {boolean} ended whether the last round that is over is answered @param {(found: Found) => Promise<Outcome | undefined>} settle
   * @param {unknown} [shipped] the survey that ships with the page, in place of a list that is neither stored nor available
   */
  async find(wanted, obstacle, ended, settle, shipped) {
    const { fresh, entries } = await this.#kept();
    const choice = await this.#choose(entries, wanted, obstacle, ended);
    if (!("status" in choice)) {
      const settled = fresh ? choice : await settle(choice);
      if (settled) return settled;
    }
    const fetched = await this.#update();
    const entry = fetched || entries.length ? undefined : parsedEntry(shipped);
    if (entry) return this.#choose([await this.#signed(entry)], wanted, obstacle, ended);
    if (!fetched) {
      if (fresh || !("status" in choice && choice.status === "no-survey")) return choice;
      throw new Unusable("the list of surveys could not be fetched; try again later");
    }
    const again = await this.#choose(fetched, wanted, obstacle, ended);
    this.#pace("status" in again);
    return again;
  }

  /** Return a survey of the kept list, however old, without a network; otherwise the reason.
   * @param {string} wanted @param {(survey: Survey) => string | undefined} [obstacle] @returns {Promise<Choice | Unknown>} */
  async kept(wanted, obstacle = () => undefined) {
    const { known, entries } = await this.#kept();
    return known
      ? this.#choose(entries, wanted, obstacle, false)
      : { status: "unavailable", detail: "no list of surveys is stored; call prefetch() first" };
  }

  /** Return the names in the kept list. */
  async names() {
    return [...new Set((await this.#kept()).entries.map((entry) => entry.name))].sort();
  }

  /** Fetch a list unless a fresh one is kept. Return whether a fresh one is there. */
  async prefetch() {
    if ((await this.#kept()).fresh) return true;
    const fetched = await this.#update();
    this.#pace(!fetched);
    return fetched !== undefined;
  }

  #record = async () => `list-${await sha256(this.#server)}`;

  /** Return the entries of the kept list, and whether there is one and it is fresh. */
  async #kept() {
    const now = this.#now(), kept = await this.#storage.get(await this.#record());
    const entries = /** @type {Entry[]} */ (kept?.surveys ?? []);
    const fresh = kept && kept.fetched <= now && now < kept.fetched + 1_000 * FRESH_SECONDS;
    return { known: Boolean(kept), fresh: Boolean(fresh), entries };
  }

  /** Fetch and keep a list. Return its entries, or undefined. */
  async #update() {
    const fetched = await this.#fetch();
    if (!fetched) return undefined;
    this.#judged.clear();
    await this.#storage.put(await this.#record(), { fetched: this.#now(), surveys: fetched });
    return fetched;
  }

  /** Return the survey that ships with the app, verified; otherwise the reason. @param {string} wanted @param {unknown} shipped @returns {Promise<Choice>} */
  async shipped(wanted, shipped) {
    const entry = parsedEntry(shipped);
    const survey = entry
      ? await this.#verified(entry)
      : "the shipped survey is not a signed survey";
    if (typeof survey === "string") return { status: "refused", detail: survey };
    if (entry && [entry.id, survey.name].includes(wanted)) {
      return { id: entry.id, survey, key: entry.key, same: [] };
    }
    return { status: "no-survey", detail: "another survey ships with the app" };
  }

  /** Slow down after fetches that do not help: no pause at first, then 2, 4, 8 ... seconds. @param {boolean} failed */
  #pace(failed) {
    this.#failures = failed ? this.#failures + 1 : 0;
    this.#notBefore = this.#failures > 1
      ? performance.now() + 1_000 * Math.min(MAX_PAUSE_SECONDS, 2 ** (this.#failures - 1))
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
      ["open", "closed"].includes(entry.state) && isSigned(entry)
    );
    return Promise.all(listed.map((entry) => this.#signed(entry)));
  }

  /** Return what to keep of an entry: without a trusted signature, its claimed name and the reason. @param {Listed} entry @returns {Promise<Entry>} */
  async #signed({ id, state, document, signature, key }) {
    const entry = { id, state, document, signature, key };
    try {
      await verify(entry, this.#policy.keys);
      return { ...entry, name: String(JSON.parse(document).survey.name) };
    } catch (error) {
      if (error instanceof Unusable) throw error;
      const problem = error instanceof Refused ? error.message : "the document cannot be read";
      const name = claimedName(document);
      return { ...entry, document: "", signature: "", key: "", name, problem };
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
      else {
        const open = await this.#isOpen(entry, survey);
        sound.push({ id: entry.id, key: entry.key, survey, position, open });
      }
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
    if (fitting.length) {
      const same = sound.filter(({ id, survey }) =>
        id !== newest.id && newest.survey.repeatRounds === 1 && survey.asked === newest.survey.asked
      );
      return { ...newest, same: same.map(({ id }) => id) };
    }
    if (open.length) {
      return { status: "refused", detail: obstacle(newest.survey) ?? "", survey: newest.id };
    }
    return {
      status: "closed",
      detail: `the survey ${
        ended ? "has no ended round whose reports are still accepted" : "is not open today"
      }, or was closed by its owner`,
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
      const survey = parseSurvey(entry.document);
      await checkSealing(survey.sealedTo);
      return survey;
    } catch (error) {
      if (error instanceof Refused) return error.message;
      throw error;
    }
  }
}

/** @param {Listed} entry of unknown content */
const isSigned = ({ document, signature, key }) =>
  [document, signature, key].every((text) => typeof text === "string");

/** Return a survey's entry from an object or JSON text; undefined if it is malformed. @param {any} shipped @returns {Listed | undefined} */
function parsedEntry(shipped) {
  try {
    const entry = typeof shipped === "string" ? JSON.parse(shipped) : shipped;
    return typeof entry.id === "string" && isSigned(entry) ? entry : undefined;
  } catch {
    return undefined;
  }
}

/** Return the name that an unverified document claims, without parsing it. @param {string} document */
const claimedName = (document) =>
  String(/"name"\s*:\s*"([^"\\]{1,64})"/.exec(document.slice(0, MAX_NAME_OFFSET))?.[1] ?? "");
