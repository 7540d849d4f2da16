/**
 * The random draw behind a report, for the person who answered: the number drawn, and the numbers that send the same.
 *
 * A mechanism chooses a payload monotonically by one 64-bit number. So the numbers that send the same payload, with all
 * other random bytes unchanged, form an interval. Bisection finds its ends, by running the mechanism itself.
 */

import { ONE } from "../exact.js";
import { bestGeometry, differenceSet } from "../geometries.js";
import { BILLION, exp } from "../exact.js";
import { MECHANISMS } from "../mechanisms.js";
import { billionths, wholeNumbers } from "../survey.js";
import { digitsOf } from "../text.js";

/**
 * @typedef {{name: string, kind: string, epsilon: string, mechanism: string, integers: string[], options?: string[], low?: number, high?: number, grid?: number, length?: number, buckets?: number, dimension?: number}} Asked a question of a survey document
 * @typedef {{roll: bigint, from: bigint, to: bigint} | {coin: boolean}} Draw a number, and the interval of those that send the same
 */

/** Return the mechanism of a question. @param {Asked} asked */
export function mechanismOf(asked) {
  const { sizes, make } = MECHANISMS[asked.mechanism];
  const size = asked.options?.length ?? asked.buckets ?? asked.dimension ?? asked.grid ?? sizes[0];
  const groups = asked.length === undefined ? undefined : digitsOf(asked.length).length;
  const made = make(billionths(asked.epsilon), size, wholeNumbers(asked.integers), groups);
  return /** @type {import("../mechanisms.js").Mechanism} */ (made);
}

/**
 * Split the random bytes of a report by question. Before the draws of its mechanism, each question draws the answer
 * that would replace one that does not fit.
 * @param {DataView[]} rolls @param {Asked[]} questions @param {boolean} asksOne
 */
export function rollsOf(rolls, questions, asksOne) {
  const rest = rolls.slice(Number(asksOne)); // the first draw picks the question
  return questions.map(({ kind }) => rest.splice(0, kind === "text" ? 3 : 2).slice(1));
}

/**
 * Return what was drawn for a question. Throws if the random bytes do not make this payload.
 * @param {Asked} asked @param {import("../mechanisms.js").Answer} answer as placed by the question @param {DataView[]} rolls @param {Uint8Array} payload
 * @returns {Draw}
 */
export function drawOf(asked, answer, rolls, payload) {
  const mechanism = mechanismOf(asked), last = rolls[rolls.length - 1];
  /** @param {bigint} roll */
  const isSame = (roll) => {
    const views = [...rolls.slice(0, -1), replaced(last, roll)];
    const made = mechanism.randomize(answer, () => /** @type {DataView} */ (views.shift()));
    return made.length === payload.length && made.every((byte, n) => byte === payload[n]);
  };
  const roll = last.getBigUint64(0, true);
  if (!isSame(roll)) throw new Error("the draw does not match the report");
  if (asked.mechanism.endsWith("unary")) {
    return { coin: (last.getUint8(last.byteLength - 1) & 1) === 1 };
  }
  return { roll, from: end(roll, 0n, isSame), to: end(roll, ONE - 1n, isSame) };
}

/** Return the last number toward `far` that sends the same. @param {bigint} near @param {bigint} far @param {(roll: bigint) => boolean} isSame */
function end(near, far, isSame) {
  if (isSame(far)) return far;
  while (near - far > 1n || far - near > 1n) {
    const middle = (near + far) / 2n;
    if (isSame(middle)) near = middle;
    else far = middle;
  }
  return near;
}

/** Return the same random bytes with another first number. @param {DataView} view @param {bigint} roll */
function replaced(view, roll) {
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength).slice();
  const copy = new DataView(bytes.buffer);
  copy.setBigUint64(0, roll, true);
  return copy;
}

/** Return numbers as percentages of the range, with at least one decimal and enough to distinguish them. @param {bigint[]} rolls */
export function percent(...rolls) {
  for (let decimals = 1n;; decimals++) {
    const texts = rolls.map((roll) => {
      const units = (100n * 10n ** decimals * roll) / ONE, one = 10n ** decimals;
      return `${units / one}.${String(units % one).padStart(Number(decimals), "0")}`;
    });
    if (decimals === 15n || new Set(texts).size === new Set(rolls).size) return texts;
  }
}

/** Return the options that fit what was sent about a choice. @param {Asked} asked @param {Uint8Array} payload */
export function optionsIn(asked, payload) {
  const all = asked.options ?? [];
  if (asked.mechanism === "k-randomized-response") return [number(payload)];
  if (asked.mechanism !== "projective-geometry") {
    return [...all.keys()].filter((n) => (payload[n >> 3] >> (n & 7)) & 1);
  }
  const e = exp(billionths(asked.epsilon), BILLION, 192n)[0];
  const geometry = bestGeometry(e, 1n << 192n, all.length), set = new Set(differenceSet(geometry));
  return [...all.keys()].filter((n) => set.has((number(payload) + n) % geometry.symbols));
}

/** Return the value that was sent about a number, if the mechanism sends one. @param {Asked} asked @param {Uint8Array} payload */
export function valueIn({ mechanism, low = 0, high = 0, grid = 1 }, payload) {
  const steps = { "one-bit-mean": 1, "ternary": 2, "local-laplace": grid }[mechanism];
  return steps && low + (high - low) * payload[0] / steps;
}

/** @param {Uint8Array} payload */
export const number = (payload) => payload.reduceRight((sum, byte) => 256 * sum + byte, 0);
