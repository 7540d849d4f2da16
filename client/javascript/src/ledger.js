/**
 * The ledger: what this install has spent, charged on disk before any noise is drawn.
 *
 * Numbered records, each made only if nobody has made it before: of two processes or tabs that
 * charge at once, one finds its number taken and reads again. Each is sealed together with the one before.
 */

import { sha256, Unusable } from "./survey.js";

const TOTAL = ""; // no question has this name

/**
 * @typedef {object} Storage small records by name; a promise is kept once they are on disk
 * @property {(name: string) => Promise<any>} get undefined if there is none
 * @property {(name: string, value: unknown) => Promise<boolean>} create only if there is none; whether it did
 * @property {(name: string, value: unknown) => Promise<void>} put
 * @property {(name: string) => Promise<void>} remove
 * @property {(prefix: string) => Promise<string[]>} names that begin so
 *
 * @typedef {Record<string, string>} Costs billionths of ε by question name; under TOTAL what they all cost, where that is not their sum
 * @typedef {{count: number, answered: Set<string>, spent: Map<string, bigint>, total: bigint, seal: string}} Ledger
 */

/** All of it, or Unusable if any of it is not as it was written. @param {Storage} storage @returns {Promise<Ledger>} */
export async function readLedger(storage) {
  const count = (await storage.names("charge-")).length, answered = new Set(), spent = new Map();
  let seal = "", total = 0n;
  for (let number = 1; number <= count; number++) {
    const { survey, round, costs, seal: sealed } = (await storage.get(`charge-${number}`)) ?? {};
    seal = await sealOf(seal, survey, round, costs);
    if (seal !== sealed) {
      throw new Unusable(
        "the ledger is damaged, so what was spent is not known; nothing more is spent",
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

/** Why these costs do not fit under the caps. @param {Ledger} ledger @param {Map<string, bigint>} costs @param {bigint} total @param {import("./policy.js").Policy} policy */
export function overspent(ledger, costs, total, policy) {
  if (ledger.total + total > policy.totalCap) {
    return "too little is left of maxEpsilon; nothing was charged";
  }
  const over = [...costs].find(([name, cost]) =>
    (ledger.spent.get(name) ?? 0n) + cost > policy.questionCap
  );
  return over && `too little is left of maxEpsilonPerQuestion for ${over[0]}; nothing was charged`;
}

/** Whether it was charged; if not, another was faster. @param {Storage} storage @param {Ledger} ledger @param {string} survey @param {number} round @param {Map<string, bigint>} spent @param {bigint} total */
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
