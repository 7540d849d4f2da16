/** The mechanisms of PROTOCOL.md, section 3: their integers, and the draw that makes a report. */

import { reaches } from "./codewords.js";
import { BILLION, ceilUnits, exp, ONE, within } from "./exact.js";
import { bestGeometry, differenceSet } from "./geometries.js";
import { SIZES } from "./tables.js";

const MAX_SYMBOLS = 256; // one byte on the wire
const LARGEST_BIAS = 2n ** 88n; // 2^-40 of a step; values and probabilities are in units of 2^-64

/**
 * @typedef {(bytes: number) => DataView} Draw returns this many random bytes
 * @typedef {{direction: readonly number[], length: bigint}} Placed a vector: whole multiples of 2^-32, and a length in units of 2^-64
 * @typedef {number | readonly [bigint, bigint] | readonly number[] | Placed} Answer an index, a place in a number's range, an index for each group, or a vector
 * @typedef {object} Mechanism
 * @property {bigint[]} integers
 * @property {number} answers the number of possible answers
 * @property {bigint} symbols the number of possible reports
 * @property {(number: number) => Answer} answerAt
 * @property {(answer: Answer, draw: Draw) => Uint8Array} randomize the payload of one report
 * @property {boolean} [isProved] false if the integers could not be proved; absent if a formula determines them
 */

/** @param {DataView} roll */
const u64 = (roll, at = 0) => roll.getBigUint64(at, true);
/** @param {bigint} e ε in billionths @param {bigint} symbols */
const lieUnits = (e, symbols) =>
  ceilUnits(e, BILLION, (E, one) => [[one, E + (symbols - 1n) * one]])[0];
/** @param {bigint | number} symbol @param {number} bytes */
const payload = (symbol, bytes) =>
  Uint8Array.from({ length: bytes }, (_, n) => Number((BigInt(symbol) >> BigInt(8 * n)) & 255n));
/** @param {number} symbols */
const bytesFor = (symbols) => symbols <= 256 ? 1 : symbols <= 65_536 ? 2 : 3;
/** @param {number} n */
const itself = (n) => n;

/** @param {bigint} e @returns {Mechanism} */
function randomizedResponse(e) {
  const lie = lieUnits(e, 2n);
  return {
    integers: [lie],
    answers: 2,
    symbols: 2n,
    answerAt: itself,
    randomize: (answer, draw) => payload(Number(answer) ^ Number(u64(draw(8)) < lie), 1),
  };
}

/** @param {bigint} e @param {number} k @returns {Mechanism} */
function kRandomizedResponse(e, k) {
  const lie = lieUnits(e, BigInt(k)), keep = ONE - lie * BigInt(k - 1);
  return {
    integers: [lie],
    answers: k,
    symbols: BigInt(k),
    answerAt: itself,
    randomize(answer, draw) {
      const roll = u64(draw(8)), far = roll - keep;
      const other = Number((far < 0n ? -far : far) / lie); // computed even if the true answer is reported
      const symbols = [other + Number(other >= Number(answer)), Number(answer)];
      return payload(symbols[Number(roll < keep)], bytesFor(k));
    },
  };
}

/** @param {bigint} e @param {number} k @returns {Mechanism} */
function unary(e, k) {
  const lie = lieUnits(e, 2n);
  return {
    integers: [lie],
    answers: k,
    symbols: 1n << BigInt(k),
    answerAt: itself,
    randomize(answer, draw) {
      const roll = draw(9 * k + 1),
        bits = Array.from({ length: k }, (_, n) => u64(roll, 9 * n) < lie);
      bits[Number(answer)] = (roll.getUint8(9 * k) & 1) === 1;
      return packed(bits);
    },
  };
}

const SLACK = 2n ** 100n;
const PLANES = 56; // bits of an option's key in a subset

/** @param {bigint} e @param {number} k @returns {Mechanism} */
function subsetSelection(e, k) {
  const K = BigInt(k), d = bestSubset(e, K), lacking = (K - d) * (SLACK + 1n);
  const [miss] = ceilUnits(e, BILLION, (E, one) => [
    [lacking * one, E * d * SLACK + lacking * one],
  ]);
  const bits = 32 - Math.clz32(k - 1), stride = (k + 7) >> 3; // bytes of a plane
  /** @param {(n: number) => boolean} has */
  const those = (has) => packed(Array.from({ length: k }, (_, n) => has(n)));
  const all = those(() => true);
  const places = Array.from(
    { length: bits },
    (_, bit) => those((n) => ((n >> (bits - 1 - bit)) & 1) === 0),
  );
  return {
    integers: [d, miss],
    answers: k,
    symbols: 1n << K,
    answerAt: itself,
    randomize(answer, draw) {
      const roll = draw(25 + PLANES * stride), coin = roll.getUint8(24) & 1;
      const keys = Array.from(
        { length: PLANES },
        (_, p) =>
          new Uint8Array(roll.buffer, roll.byteOffset + 25 + p * stride, stride).slice().reverse(),
      );
      const order = places.map((place) => place.map((byte) => byte ^ (255 * coin)));
      const [some] = first(all, Number(d), [...keys, ...order]);
      const missed = Number(u64(roll) >= ONE - miss);
      const die = u64(roll, 8) | (u64(roll, 16) << 64n);
      const number = Number(([d, K - d][missed] * die) >> 128n);
      const side = some.map((byte, n) => byte ^ (all[n] * missed));
      const turn = optionOf(side, number, places) - Number(answer) + k;
      return those((n) => hasOption(some, (n + turn) % k));
    },
  };
}

const BITS_OF = Uint8Array.from(
  { length: 256 },
  (_, byte) => byte.toString(2).replace(/0/g, "").length,
);

/**
 * Return the first `count` options of a packed set in the order of their keys, and the first
 * `count` + 1. Each plane contains the options with a 0 in the next bit of their key; all keys differ.
 * @param {Uint8Array} of @param {number} count @param {Uint8Array[]} planes
 */
function first(of, count, planes) {
  const bounds = [new Uint8Array(of.length), of];
  for (const plane of planes) {
    const [low, high] = bounds, middle = plane.map((byte, n) => low[n] | (high[n] & byte));
    bounds[Number(middle.reduce((sum, byte) => sum + BITS_OF[byte], 0) > count)] = middle;
  }
  return bounds;
}

/** Return the option at this position of a set, counted from 0. @param {Uint8Array} of @param {number} number @param {Uint8Array[]} places */
function optionOf(of, number, places) {
  const [without, included] = first(of, number, places);
  return included.reduce((sum, byte, n) => {
    const only = byte ^ without[n]; // 0 in all bytes except one
    return sum + Number(only > 0) * (8 * n + 31 - Math.clz32(only));
  }, 0);
}

/** @param {Uint8Array} set @param {number} n */
const hasOption = (set, n) => ((set[n >> 3] >> (n & 7)) & 1) === 1;

/** Return the d with the smallest variance, one of the two near k / (e^ε + 1), compared exactly. @param {bigint} e @param {bigint} k */
function bestSubset(e, k) {
  const [low, high] = exp(e, BILLION, 192n), rough = (k << 192n) / (high + (1n << 192n));
  const d = rough > 1n ? rough : 1n, next = d + 1n;
  /** @param {bigint} n @param {bigint} end */
  const spread = (n, end) => (n * end + ((k - n) << 192n)) ** 2n;
  return spread(next, high) * d * (k - d) < spread(d, low) * next * (k - next) ? next : d;
}

/** @param {bigint} e @param {number} k @returns {Mechanism} */
function projectiveGeometry(e, k) {
  const geometry = bestGeometry(exp(e, BILLION, 192n)[0], 1n << 192n, k);
  const N = BigInt(geometry.symbols), r = BigInt(geometry.speaking);
  const all = N * (SLACK + 1n), own = r * SLACK;
  const [blind] = ceilUnits(e, BILLION, (E, one) => [[all * one, E * own + (all - own) * one]]);
  /** @type {number[] | undefined} */
  let set;
  return {
    integers: [BigInt(geometry.q), N, blind],
    answers: k,
    symbols: N,
    answerAt: itself,
    randomize(answer, draw) {
      set ??= differenceSet(geometry);
      const roll = draw(24), die = u64(roll, 8) | (u64(roll, 16) << 64n);
      const place = set[Number((die * r) >> 128n)];
      const speaking = (place + geometry.symbols - Number(answer)) % geometry.symbols;
      const symbols = [speaking, Number((die * N) >> 128n)];
      return payload(symbols[Number(u64(roll) < blind)], bytesFor(geometry.symbols));
    },
  };
}

/** Pack bits so that bit n of the payload belongs to option n. @param {boolean[]} bits */
function packed(bits) {
  const bytes = new Uint8Array((bits.length + 7) >> 3);
  bits.forEach((bit, n) => (bytes[n >> 3] |= Number(bit) << (n & 7)));
  return bytes;
}

/** Round stochastically to a grid point, then draw from its row. @param {bigint} e @param {bigint[]} integers @param {bigint[][]} rows @returns {Mechanism} */
function numberTable(e, integers, rows) {
  const steps = rows.length - 1;
  const columns = rows[0].map((_, symbol) => rows.map((row) => row[symbol]));
  const sums = rows.map((row) => { // cumulative, without the last sum, which is 2^64
    let sum = 0n;
    return row.slice(0, -1).map((units) => (sum += units));
  });
  return {
    integers,
    answers: rows.length,
    symbols: BigInt(columns.length),
    answerAt: (n) => [BigInt(n), BigInt(steps)],
    randomize(answer, draw) {
      const [numerator, denominator] = /** @type {[bigint, bigint]} */ (answer);
      const roll = draw(16), scaled = numerator * BigInt(steps);
      const raised = u64(roll, 8) * denominator < (scaled % denominator) * ONE;
      const row = sums[Number(scaled / denominator) + Number(raised)];
      return payload(row.reduce((symbol, sum) => symbol + Number(sum <= u64(roll)), 0), 1);
    },
    isProved: columns.every((column) => {
      const [small, large] = column.reduce(([s, l], p) => [p < s ? p : s, p > l ? p : l], [
        ONE,
        0n,
      ]);
      return small > 0n && within(e, large, small);
    }),
  };
}

/**
 * Make a mechanism that reports for one group, drawn independently of the answer: the group's number, then the report.
 * @param {(e: bigint, k: number) => Mechanism} design @returns {Maker}
 */
const grouped = (design) => (e, k, _, groups = 3) => {
  const chosen = design(e, k);
  return {
    integers: chosen.integers,
    answers: k,
    symbols: ((chosen.symbols - 1n) << 8n) + BigInt(groups),
    answerAt: (n) => Array.from({ length: groups }, () => n),
    randomize(answer, draw) {
      const group = Number((u64(draw(8)) * BigInt(groups)) >> 64n);
      const own = /** @type {readonly number[]} */ (answer)[group];
      return Uint8Array.of(group, ...chosen.randomize(own, draw));
    },
  };
};

/** Build a table in which the ends of the range collect the tails. @param {bigint} e @param {number} m @param {bigint[]} units */
function gathered(e, m, units) {
  const inside = units.slice(0, m - 1), ends = units.slice(m - 1);
  const rows = Array.from({ length: m + 1 }, (_, i) => {
    const row = Array.from(
      { length: m + 1 },
      (_, j) => j === i ? 0n : (j === 0 || j === m ? ends : inside)[Math.abs(i - j) - 1],
    );
    row[i] = ONE - row.reduce((a, b) => a + b);
    return row;
  });
  return numberTable(e, units, rows);
}

/** @param {bigint} e @param {number} m */
function localLaplace(e, m) {
  return gathered(
    e,
    m,
    ceilUnits(e, BILLION * BigInt(m), (S, one) => {
      /** @type {[bigint, bigint][]} */
      const ends = [[one, S + one]];
      while (ends.length < m) {
        ends.push(
          ends.slice(-1).map(([a, b]) => /** @type {[bigint, bigint]} */ ([a * one, b * S]))[0],
        );
      }
      const inside = ends.slice(0, -1).map((
        [a, b],
      ) => /** @type {[bigint, bigint]} */ ([a * (S - one), b * S]));
      return [...inside, ...ends];
    }),
  );
}

/** @param {bigint} e */
function ternary(e) {
  const q = lieUnits(e, 3n), p = ONE - 2n * q;
  return numberTable(e, [q], [[p, q, q], [q, p, q], [q, q, p]]);
}

/** @param {bigint} e */
function splitSign(e) {
  const [q] = ceilUnits(e, BILLION, (E, one) => [[one, 2n * (E + one)]]);
  const p = ONE / 2n - q;
  return numberTable(e, [q], [[p, p, q, q], [q, p, p, q], [q, q, p, p]]);
}

/** Build the square wave: a window of w symbols around the answer, whose middle takes the remainder. @param {bigint} e @param {number} m */
function squareWave(e, m) {
  const M = BigInt(m), [, high] = exp(e, BILLION, 192n);
  const b = ((M + 1n) << 192n) / (2n * (high + (1n << 192n))), w = 2n * b + 1n;
  const [far] = ceilUnits(e, BILLION, (E, one) => [
    [(ONE + 4n * b * b) * one, (E * w + M * one) * ONE],
  ]);
  const near = (ONE - M * far) / w, middle = near + (ONE - M * far) % w;
  const rows = Array.from(
    { length: m + 1 },
    (_, i) =>
      Array.from({ length: m + Number(w) }, (_, j) => {
        const off = Math.abs(j - i - Number(b));
        return off === 0 ? middle : off <= Number(b) ? near : far;
      }),
  );
  return numberTable(e, [w, far], rows);
}

/**
 * Prove a table that has no formula, and whose integers come with the survey. Return undefined if the list is malformed.
 * @param {bigint} e @param {number} m @param {bigint[]} given
 */
function optimalTable(e, m, given) {
  const width = m + 2, half = given.length / width;
  if (!Number.isInteger(half) || half < 1 || 2 * half > MAX_SYMBOLS) return undefined;
  const first = Array.from({ length: half }, (_, j) => given.slice(j * width, (j + 1) * width));
  const mirrored = first.map(([value, ...column]) => [
    (BigInt(m) << 64n) - value,
    ...column.reverse(),
  ]);
  const symbols = [...first, ...mirrored.reverse()], values = symbols.map(([value]) => value);
  const rows = Array.from({ length: m + 1 }, (_, i) => symbols.map((symbol) => symbol[i + 1]));
  const table = numberTable(e, given, rows);
  const whole = rows.every((row) => row.reduce((a, b) => a + b) === ONE);
  const ascending = values.every((value, j) => j === 0 || values[j - 1] <= value);
  const unbiased = rows.every((row, i) => {
    const bias = row.reduce((sum, units, j) => sum + units * values[j], -(BigInt(i) << 128n));
    return -LARGEST_BIAS <= bias && bias <= LARGEST_BIAS;
  });
  // `table.isProved`: no entry is 0, and no column has a ratio above e^ε
  return { ...table, isProved: table.isProved && whole && ascending && unbiased };
}

const PLACE = 2 ** 10, FAR = 2 ** 34, KEY_BITS = 44; // a key is a reach with its pair's number, so no two are equal

/**
 * Report one of M public directions, more often one of the k closest to the vector. The survey chooses M and k.
 * @param {bigint} e @param {number} d @param {bigint[]} given @returns {Mechanism | undefined}
 */
function kClosest(e, d, given) {
  const [M, k] = given;
  if (given.length !== 3 || !(M >= 16n && M <= 1_024n) || (M & (M - 1n)) || k < 1n || 2n * k > M) {
    return undefined;
  }
  let [far] = ceilUnits(e, BILLION, (E, one) => [[one, (E - one) * k + M * one]]);
  while ((ONE - far * (M - k)) % k) far++;
  const near = (ONE - far * (M - k)) / k;
  const weights = [[far, far], [near, far], [far, near]]; // of a pair: far, or near at one of its ends
  return {
    integers: [M, k, far],
    answers: 2 * d,
    symbols: M << 64n,
    answerAt: (n) => ({
      direction: Array.from(
        { length: d },
        (_, i) => i === n >> 1 ? (1 - 2 * (n & 1)) * 2 ** 32 : 0,
      ),
      length: ONE,
    }),
    randomize(answer, draw) {
      const { direction, length } = /** @type {Placed} */ (answer);
      const roll = draw(24), seed = u64(roll), coin = u64(roll, 8), pick = u64(roll, 16);
      const reached = reaches(seed, Number(M / 2n), direction);
      const keys = reached.map((reach, pair) => Math.floor(Math.abs(reach) + FAR) * PLACE + pair);
      const least = leastOf(keys, Number(k));
      let sum = 0n, codeword = -1;
      keys.forEach((key, pair) => {
        for (const units of weights[Number(key >= least) << Number(reached[pair] < 0)]) {
          codeword += Number(sum <= pick);
          sum += units;
        }
      });
      const back = Number((coin + ((ONE - length) >> 1n)) >> 64n); // 1 with probability (1 - length) / 2
      return Uint8Array.of(...payload(seed, 8), ...payload(codeword ^ back, bytesFor(Number(M))));
    },
    isProved: far > 0n && far <= near && within(e, near, far),
  };
}

/** Return the least of the `chosen` largest keys, all different, in a fixed number of steps. @param {number[]} keys @param {number} chosen */
function leastOf(keys, chosen) {
  let least = 2 ** KEY_BITS;
  for (let bit = KEY_BITS - 1; bit >= 0; bit--) {
    const higher = least + 2 ** bit;
    const count = keys.reduce((sum, key) => sum + Number(key >= higher), 0);
    least = [least, higher][Number(count >= chosen)];
  }
  return least;
}

/**
 * @typedef {import("./tables.js").Sizes & {make: Maker}} Listed
 * @typedef {(e: bigint, size: number, given: bigint[], groups?: number) => Mechanism | undefined} Maker `given`: the integers of the survey; `groups`: the number of groups of a text
 */
/** @type {Record<string, Maker>} */
const MAKERS = {
  "randomized-response": randomizedResponse,
  "k-randomized-response": kRandomizedResponse,
  "subset-selection": subsetSelection,
  "unary": unary,
  "projective-geometry": projectiveGeometry,
  "one-bit-mean": (e) => gathered(e, 1, [lieUnits(e, 2n)]),
  "local-laplace": localLaplace,
  "ternary": ternary,
  "split-sign": splitSign,
  "optimal-table": optimalTable,
  "square-wave": squareWave,
  "grouped-k-randomized-response": grouped(kRandomizedResponse),
  "grouped-subset-selection": grouped(subsetSelection),
  "grouped-unary": grouped(unary),
  "grouped-projective-geometry": grouped(projectiveGeometry),
  "k-closest": kClosest,
};

/** @type {Record<string, Listed>} */
export const MECHANISMS = Object.fromEntries(
  Object.entries(MAKERS).map(([name, make]) => [name, { ...SIZES[name], make }]),
);
