/** Probabilities as whole multiples of 2^-64, rounded toward more noise, without a float. */

export const ONE = 2n ** 64n;
export const BILLION = 10n ** 9n;

/** @param {bigint} a @param {bigint} b */
const ceil = (a, b) => (a + b - 1n) / b;

/**
 * Compute e^(numerator / denominator) from its power series. Once n >= 2x, each term is at most half of
 * the previous one, so the remainder is less than the last term, which is below one unit.
 * @param {bigint} numerator @param {bigint} denominator @param {bigint} bits
 * @returns {[bigint, bigint]} a lower and an upper bound, in units of 2^-bits
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
 * Round ratios that depend on E = e^(numerator / denominator) up to multiples of 2^-64. Both parts of a ratio are whole
 * numbers and do not decrease with E, so bounds of E give bounds of the ratio. The precision is raised until both
 * bounds agree, which proves the result.
 * @param {bigint} numerator @param {bigint} denominator
 * @param {(E: bigint, one: bigint) => [bigint, bigint][]} ratios E in units of 1 / one
 */
export function ceilUnits(numerator, denominator, ratios) {
  for (let bits = 192n;; bits *= 2n) {
    const [low, high] = exp(numerator, denominator, bits).map((E) => ratios(E, 1n << bits));
    const above = high.map(([part], n) => ceil(part << 64n, low[n][1]));
    if (low.every(([part], n) => ceil(part << 64n, high[n][1]) === above[n])) return above;
  }
}

/** Prove that larger / smaller <= e^ε. @param {bigint} e @param {bigint} larger @param {bigint} smaller */
export const within = (e, larger, smaller) => larger << 384n <= exp(e, BILLION, 384n)[0] * smaller;
