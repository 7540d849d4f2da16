/** Finite geometries as sets of numbers modulo N: PROTOCOL.md, section 3, `projective-geometry`. */

const MAX_SYMBOLS = 300_000;
const isPrime = (/** @type {number} */ n) => {
  for (let d = 2; d * d <= n; d++) if (n % d === 0) return false;
  return n > 1;
};
const PRIMES = Array.from({ length: 258 }, (_, n) => n).filter(isPrime);
/** Each field: its prime, the exponent of its order, and the values of the linear function that belong to the set. @type {[number, number, number[]][]} */
const FIELDS = [
  [2, 2, [0]],
  [5, 1, [1, 4]],
  ...PRIMES.map((p) => /** @type {[number, number, number[]]} */ ([p, 1, [0]])),
];

/**
 * `symbols`, `speaking` and `shared` are N, r and λ; `points` is the maximum number of options.
 * @typedef {{p: number, s: number, t: number, q: number, hits: number[], points: number, symbols: number, speaking: number, shared: number}} Geometry
 */

/** Return, for each field, the smallest geometry with enough points. @param {number} options @returns {Geometry[]} */
function geometries(options) {
  return FIELDS.map(([p, s, hits]) => {
    const q = p ** s, points = (/** @type {number} */ t) => (q ** t - 1) / (q - 1);
    let t = 2;
    while (points(t) < options) t++;
    const zero = Number(hits.includes(0)), kept = zero ? q - 1 : hits.length;
    return {
      p,
      s,
      t,
      q,
      hits,
      points: points(t),
      symbols: (q ** t - 1) / kept,
      speaking: (hits.length * q ** (t - 1) - zero) / kept,
      shared: (hits.length ** 2 * q ** (t - 2) - zero) / kept,
    };
  }).filter(({ symbols }) => symbols <= MAX_SYMBOLS);
}

/** Return the geometry with the smallest variance. @param {bigint} e e^ε @param {bigint} one the unit of e @param {number} options */
export function bestGeometry(e, one, options) {
  const spreads = geometries(options).map((geometry) => {
    const [n, r, both] = [geometry.symbols, geometry.speaking, geometry.shared].map(BigInt);
    const apart = r - both;
    const lies = (both * e + apart * one) * (apart * e + (n - r - apart) * one);
    const spread = (r * (n - r) * e * one + BigInt(options - 1) * lies) / apart ** 2n;
    return { geometry, spread };
  });
  return spreads.reduce((best, other) => other.spread < best.spread ? other : best).geometry;
}

/** Return the numbers of the set in ascending order. @param {Geometry} geometry */
export function differenceSet({ p, s, t, hits, points, symbols }) {
  const values = sequence(primitive(p, s * t), p, s * symbols), found = [];
  for (let d = 0; d < symbols; d++) {
    let speaks = true;
    for (let more = 0; more < s; more++) speaks &&= hits.includes(values[d + more * points]);
    if (speaks) found.push(d);
  }
  return found;
}

/** @param {number[]} taps @param {number} p @param {number} length */
function sequence(taps, p, length) {
  const m = taps.length, values = new Uint16Array(length + m);
  values[m - 1] = 1;
  for (let n = m; n < length; n++) {
    values[n] = taps.reduce((sum, tap, i) => sum + tap * values[n - m + i], 0) % p;
  }
  return values;
}

/** Return the taps of the first recurrence whose period is p^m - 1. @param {number} p @param {number} m */
function primitive(p, m) {
  const order = p ** m - 1, parts = primeFactors(order).map((prime) => order / prime);
  const isOne = (/** @type {number[]} */ power) => power.every((c, i) => c === Number(i === 0));
  for (let number = 1;; number++) {
    const taps = Array.from({ length: m }, (_, i) => Math.floor(number / p ** i) % p);
    const full = isOne(power(order, taps, p));
    if (full && !parts.some((part) => isOne(power(part, taps, p)))) return taps;
  }
}

/** Return x^exponent modulo x^m minus the sum of taps[i] x^i. @param {number} exponent @param {number[]} taps @param {number} p */
function power(exponent, taps, p) {
  const m = taps.length;
  let result = taps.map((_, i) => Number(i === 0));
  for (const digit of exponent.toString(2)) {
    const product = new Array(2 * m).fill(0), shift = Number(digit);
    result.forEach((a, i) => result.forEach((b, j) => product[i + j + shift] += a * b));
    for (let top = 2 * m - 1; top >= m; top--) {
      taps.forEach((tap, i) => product[top - m + i] += (product[top] % p) * tap);
    }
    result = product.slice(0, m).map((value) => value % p);
  }
  return result;
}

/** @param {number} number */
function primeFactors(number) {
  const found = [];
  for (let prime = 2; prime * prime <= number; prime++) {
    if (number % prime === 0) found.push(prime);
    while (number % prime === 0) number /= prime;
  }
  return number > 1 ? [...found, number] : found;
}
