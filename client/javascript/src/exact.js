/** Probabilities as whole multiples of 2^-64, rounded toward more noise, without a float. */

export const ONE = 2n ** 64n;
export const BILLION = 10n ** 9n;

/** @typedef {readonly [bigint, bigint]} Interval an interval that contains a positive real, in units of 2^-bits */
/** @param {bigint} a @param {bigint} b */
const ceil = (a, b) => (a + b - 1n) / b;

/** Arithmetic on intervals; every operation rounds outward. @param {bigint} bits */
const arithmetic = (bits) => ({
  /** @param {bigint} n @returns {Interval} */
  whole: (n) => [n << bits, n << bits],
  /** @param {Interval} a @param {bigint} n @returns {Interval} */
  plus: (a, n) => [a[0] + (n << bits), a[1] + (n << bits)],
  /** @param {Interval} a @param {Interval} b @returns {Interval} */
  times: (a, b) => [(a[0] * b[0]) >> bits, ceil(a[1] * b[1], 1n << bits)],
  /** @param {Interval} a @param {Interval} b @returns {Interval} */
  over: (a, b) => [(a[0] << bits) / b[1], ceil(a[1] << bits, b[0])],
});

/**
 * Compute e^(numerator / denominator) from its power series. Once n >= 2x, each term is at most half of
 * the previous one, so the remainder is less than the last term, which is below one unit.
 * @param {bigint} numerator @param {bigint} denominator @param {bigint} bits @returns {Interval}
 */
export function exp(numerator, denominator, bits) {
  let low = 1n << bits, high = low, lowTerm = low, highTerm = low;
  for (let n = 1n; highTerm > 1n || (n - 1n) * denominator < 2n * numerator; n++) {
    lowTerm = (lowTerm * numerator) / (denominator * n);
    highTerm = ceil(highTerm * numerator, denominator * n);
    low += lowTerm;
    high += highTerm;
  }
  return [low, high + 1n];
}

/**
 * Round the value of each formula of e^(numerator / denominator) up to a multiple of 2^-64. The precision is raised
 * until both ends agree, which proves the result.
 * @param {bigint} numerator @param {bigint} denominator
 * @param {(e: Interval, on: ReturnType<typeof arithmetic>) => Interval[]} formulas
 */
export function ceilUnits(numerator, denominator, formulas) {
  for (let bits = 192n;; bits *= 2n) {
    const values = formulas(exp(numerator, denominator, bits), arithmetic(bits));
    const [below, above] = [0, 1].map((end) => values.map((v) => ceil(v[end], 1n << (bits - 64n))));
    if (below.every((units, n) => units === above[n])) return above;
  }
}

/** Prove that larger / smaller <= e^ε. @param {bigint} e @param {bigint} larger @param {bigint} smaller */
export const within = (e, larger, smaller) => larger << 384n <= exp(e, BILLION, 384n)[0] * smaller;

/** Return a number with commas between groups of digits. @param {number} number */
export const grouped = (number) =>
  number.toLocaleString("en-US", { maximumFractionDigits: 20 }).replace("-", "−");
