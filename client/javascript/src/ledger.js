/**
 * The ledger: the ε that this install has spent, charged on disk before any noise is drawn.
 *
 * It consists of numbered records, each created only if it does not exist. If two processes or tabs
 * charge simultaneously, one of them finds its number in use and reads the ledger again. Each seal
 * covers the record and the previous seal.
 */

import { sha256, Unusable } from "./survey.js";

const TOTAL = ""; // no question has this name

/**
 * @typedef {object} Storage small records by name; each promise resolves when the record is on disk
 * @property {(name: string) => Promise<any>} get undefined if there is none
 * @property {(name: string, value: unknown) => Promise<boolean>} create a record unless one exists, and return whether this call created it
 * @property {(name: string, value: unknown) => Promise<void>} put
 * @property {(name: string) => Promise<void>} remove
 * @property {(prefix: string) => Promise<string[]>} names with this prefix
 *
 * @typedef {Record<string, string>} Costs billionths of ε by question name; the total cost is under TOTAL if it is not their sum
 * @typedef {{count: number, answered: Set<string>, spent: Map<string, bigint>, total: bigint, seal: string}} Ledger
 */

/** Read the whole ledger. Rejects with Unusable if any record was changed. @param {Storage} storage @returns {Promise<Ledger>} */
export async function readLedger(storage) {
  const count = (await storage.names("charge-")).length, answered = new Set(), spent = new Map();
  let seal = "", total = 0n;
  for (let number = 1; number <= count; number++) {
    const { survey, round, costs, seal: sealed } = (await storage.get(`charge-${number}`)) ?? {};
    seal = await sealOf(seal, survey, round, costs);
    if (seal !== sealed) {
      throw new Unusable(
        "the ledger is damaged, so the ε already spent is unknown; nothing was charged",
      );
    }
    answered.add(`${survey} ${round}`);
    const { [TOTAL]: whole, ...names } = /** @type {Costs} */ (costs);
    let sum = 0n;
    for (const [name, cost] of Object.entries(names)) {
      spent.set(name, (spent.get(name) ?? 0n) + BigInt(cost));
      sum += BigInt(cost);
    }
    total += whole === undefined ? sum : BigInt(whole);
  }
  return { count, answered, spent, total, seal };
}

/** Return why these costs exceed the caps. @param {Ledger} ledger @param {Map<string, bigint>} costs @param {bigint} total @param {import("./policy.js").Policy} policy */
export function overspent(ledger, costs, total, policy) {
  if (ledger.total + total > policy.totalCap) {
    return "too little of maxEpsilon is left; nothing was charged";
  }
  const over = [...costs].find(([name, cost]) =>
    (ledger.spent.get(name) ?? 0n) + cost > policy.questionCap
  );
  return over && `too little of maxEpsilonPerQuestion is left for ${over[0]}; nothing was charged`;
}

/** Charge, and return whether that succeeded; if not, another process was faster. @param {Storage} storage @param {Ledger} ledger @param {string} survey @param {number} round @param {Map<string, bigint>} spent @param {bigint} total */
export async function charge(storage, ledger, survey, round, spent, total) {
  const sum = [...spent.values()].reduce((a, b) => a + b),
    whole = total === sum ? [] : [[TOTAL, total]];
  const costs = Object.fromEntries(
    [...spent, ...whole].map(([name, cost]) => [name, String(cost)]),
  );
  const seal = await sealOf(ledger.seal, survey, round, costs);
  return storage.create(`charge-${ledger.count + 1}`, { survey, round, costs, seal });
}

/** @param {string} before @param {string} survey @param {number} round @param {Costs} costs */
const sealOf = (before, survey, round, costs) =>
  sha256(JSON.stringify([before, survey, round, costs]));
