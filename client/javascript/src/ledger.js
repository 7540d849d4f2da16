/**
 * The ledger: the ε that this install has spent, charged on disk before any noise is drawn.
 *
 * It consists of numbered records, each created only if it does not exist. If two processes or tabs
 * charge simultaneously, one of them finds its number in use and reads the ledger again.
 *
 * Each record contains the sums up to and including itself: of its calendar quarter, of the install's
 * life, and the number of the last record of every other quarter. So a charge reads at most two records,
 * however many there are. Each seal covers the record and the previous seal.
 */

import { sha256, Unusable } from "./survey.js";

/**
 * @typedef {object} Storage small records by name; each promise resolves when the record is on disk
 * @property {(name: string) => Promise<any>} get undefined if there is none
 * @property {(name: string, value: unknown) => Promise<boolean>} create a record unless one exists, and return whether this call created it
 * @property {(name: string, value: unknown) => Promise<void>} put
 * @property {(name: string) => Promise<void>} remove
 * @property {(prefix: string) => Promise<string[]>} names with this prefix
 * @property {(name: string) => Storage} [within] records of their own under a name, apart from these
 *
 * @typedef {{total: bigint, questions: Map<string, bigint>, surveys: Map<string, bigint>}} Sums in billionths of ε; surveys by name and signing key
 * @typedef {{survey: string, round: number, quarter: string, name: string, key: string, costs: Map<string, bigint>, total: bigint}} Charge
 *   of a round that is charged to a calendar quarter, for a survey with this id, name and signing key
 * @typedef {{count: number, seal: string, last: Record<string, number>, spent: Sums, life: Sums}} Ledger
 *   `spent` is of the quarter that was asked for
 */

/** Return whether a round was answered. @param {Storage} storage @param {string} survey @param {number} round */
export const isAnswered = async (storage, survey, round) =>
  (await storage.get(`round-${survey}-${round}`)) !== undefined;

/**
 * Charge a round. Return the reason if nothing was charged. The round is marked as answered first, by a
 * record that only one process or tab can create. A crash in between loses the answer and spends nothing.
 * @param {Storage} storage @param {import("./policy.js").Policy} policy @param {Charge} charged
 * @returns {Promise<{status: "already-answered" | "budget-spent", detail: string} | undefined>}
 */
export async function charge(storage, policy, charged) {
  const mark = `round-${charged.survey}-${charged.round}`;
  const first = await readLedger(storage, charged.quarter);
  if (await storage.get(mark)) return answered();
  const over = overspent(first, charged, policy);
  if (over) return { status: "budget-spent", detail: over };
  if (!(await storage.create(mark, { quarter: charged.quarter }))) return answered();
  try {
    for (let ledger = first;; ledger = await readLedger(storage, charged.quarter)) {
      const over = overspent(ledger, charged, policy);
      if (over) {
        await storage.remove(mark); // no other process charges this round while the mark exists
        return { status: "budget-spent", detail: over };
      }
      const name = `charge-${ledger.count + 1}`; // taken, if another process charges at the same time
      if (await storage.create(name, await next(ledger, charged))) return undefined;
    }
  } catch (error) {
    await storage.remove(mark).catch(() => {}); // no noise was drawn, so the round may be tried again
    throw error;
  }
}

export const ALREADY = "this survey was already answered in this round";

const answered = () => /** @type {const} */ ({ status: "already-answered", detail: ALREADY });

/** Return what was spent in a quarter and in all. Rejects with Unusable if a record that counts was changed. @param {Storage} storage @param {string} quarter @returns {Promise<Ledger>} */
export async function readLedger(storage, quarter) {
  const count = await countOf(storage);
  if (!count) return { count, seal: "", last: {}, spent: sums(), life: sums() };
  const newest = await storage.get(`charge-${count}`);
  const { seal, last, life } = await intact(newest), number = last[quarter];
  const latest = number && (await intact(await storage.get(`charge-${number}`)));
  return { count, seal, last, spent: sums(latest?.spent), life: sums(life) };
}

/** Return the number of charges. Rejects with Unusable if one of them is missing. @param {Storage} storage */
async function countOf(storage) {
  const numbers = new Set((await storage.names("charge-")).map((name) => Number(name.slice(7))));
  const count = Math.max(0, ...numbers);
  for (let number = 1; number < count; number++) {
    // a folder that is listed while records are added may lack one of them
    if (!numbers.has(number) && !(await storage.get(`charge-${number}`))) throw damaged();
  }
  return count;
}

/** Return a record if its seal is intact. @param {any} record */
async function intact(record) {
  const { seal, ...content } = record ?? {};
  if (seal === undefined || seal !== (await sealOf(content))) throw damaged();
  return record;
}

const damaged = () =>
  new Unusable("the ledger is damaged, so the ε already spent is unknown; nothing was charged");

/** Return why a charge exceeds the caps. @param {Ledger} ledger @param {Charge} charged @param {import("./policy.js").Policy} policy */
export function overspent(ledger, { quarter, name, key, costs, total }, policy) {
  const renews = policy.per === "quarter", spent = renews ? ledger.spent : ledger.life;
  const limits = [
    { cap: policy.totalCap, sum: spent.total + total, of: "maxEpsilon is left" },
    {
      cap: policy.surveyCap,
      sum: (spent.surveys.get(`${name} ${key}`) ?? 0n) + total,
      of: "maxEpsilonPerSurvey is left",
    },
    ...[...costs].map(([question, cost]) => ({
      cap: policy.questionCap,
      sum: (spent.questions.get(question) ?? 0n) + cost,
      of: `maxEpsilonPerQuestion is left for ${question}`,
    })),
  ];
  const over = limits.find(({ cap, sum }) => sum > cap);
  return over && `too little of ${over.of}${renews ? ` in ${quarter}` : ""}; nothing was charged`;
}

/** Return the next record of the ledger. @param {Ledger} ledger @param {Charge} charged */
async function next(ledger, charged) {
  const { survey, round, quarter } = charged, number = ledger.count + 1;
  const content = {
    survey,
    round,
    quarter,
    before: ledger.seal,
    last: { ...ledger.last, [quarter]: number },
    spent: kept(ledger.spent, charged),
    life: kept(ledger.life, charged),
  };
  return { ...content, seal: await sealOf(content) };
}

/** Return sums with one more charge, as text. @param {Sums} sums @param {Charge} charged */
function kept({ total, questions, surveys }, charged) {
  const survey = `${charged.name} ${charged.key}`;
  const added = new Map(questions);
  for (const [name, cost] of charged.costs) added.set(name, (added.get(name) ?? 0n) + cost);
  return {
    total: String(total + charged.total),
    questions: texts(added),
    surveys: texts(new Map(surveys).set(survey, (surveys.get(survey) ?? 0n) + charged.total)),
  };
}

/** @param {Map<string, bigint>} amounts */
const texts = (amounts) =>
  Object.fromEntries([...amounts].map(([name, amount]) => [name, String(amount)]));

/** Return sums from their text. @param {any} [kept] @returns {Sums} */
function sums({ total = "0", questions = {}, surveys = {} } = {}) {
  const amounts = (/** @type {Record<string, string>} */ texts) =>
    new Map(Object.entries(texts).map(([name, amount]) => [name, BigInt(amount)]));
  return { total: BigInt(total), questions: amounts(questions), surveys: amounts(surveys) };
}

/** @param {unknown} content of a record, with the seal of the record before it */
const sealOf = (content) => sha256(JSON.stringify(content));
