/** Codewords: the public directions that a seed stands for. PROTOCOL.md, section 3, "Codewords". */

const PREFIX = new TextEncoder().encode("deniable codeword 1\0");
const RATE = 34; // numbers of 32 bits that one permutation gives
const HALF = 2 ** 15, SPREAD = 256 * Math.SQRT2;

/**
 * Return how far the first codeword of each pair reaches along a direction. All products and sums are
 * whole numbers below 2^53, so every client finds the same order.
 * @param {bigint} seed @param {number} pairs @param {readonly number[]} direction
 */
export function reaches(seed, pairs, direction) {
  const values = coordinates();
  return Array.from({ length: pairs }, (_, pair) => {
    const words = expanded(seed, pair, direction.length);
    let along = 0, squares = 0;
    for (let n = 0; n < direction.length; n++) {
      const value = values[words[n]];
      along += value * direction[n];
      squares += value * value;
    }
    return along / Math.sqrt(squares);
  });
}

/** @type {Int16Array | undefined} */
let known;

/** Return the coordinate for each number of two bytes. */
function coordinates() {
  if (known) return known;
  const table = new Int16Array(2 * HALF);
  for (let size = 1, below = 0; below < HALF; size++) {
    const above = Math.floor(HALF * erf(size / SPREAD) + 0.5);
    for (; below < above; below++) table.set([2 * size - 1, 1 - 2 * size], 2 * below);
  }
  return known = table;
}

/** Return the error function of x from 0 to 5, to about one part in 10^14. @param {number} x */
function erf(x) {
  let term = 2 * x * Math.exp(-x * x) / Math.sqrt(Math.PI), sum = term;
  for (let n = 1; term > 1e-17; n++) sum += term *= 2 * x * x / (2 * n + 1);
  return sum;
}

/**
 * Return numbers of two bytes from SHAKE-256 (FIPS 202), which WebCrypto lacks. Its input and output
 * are public: no secret and no privacy depends on it.
 * @param {bigint} seed @param {number} pair @param {number} count
 */
function expanded(seed, pair, count) {
  const block = new DataView(new ArrayBuffer(4 * RATE)), at = PREFIX.length;
  PREFIX.forEach((byte, n) => block.setUint8(n, byte));
  block.setBigUint64(at, seed, true);
  block.setUint16(at + 8, pair, true);
  block.setUint8(at + 10, 0x1f);
  block.setUint8(4 * RATE - 1, 0x80);
  const state = new Int32Array(50), words = new Uint16Array(count);
  for (let n = 0; n < RATE; n++) state[n] = block.getInt32(4 * n, true);
  for (let n = 0; n < count; n++) {
    const place = n % (2 * RATE);
    if (place === 0) permute(state);
    words[n] = state[place >> 1] >>> (16 * (place & 1));
  }
  return words;
}

/** For each lane in the order of ρ and π: its place, and the bits by which it is rotated. */
const LANES = Uint8Array.from({ length: 48 }, (_, n) => {
  const t = n >> 1;
  let [x, y] = [1, 0];
  for (let step = 0; step <= t; step++) [x, y] = [y, (2 * x + 3 * y) % 5];
  return n & 1 ? (t + 1) * (t + 2) / 2 % 64 : x + 5 * y;
});
/** The two halves of the constant of each round. */
const CONSTANTS = (() => {
  let register = 1;
  return Array.from({ length: 24 }, () => {
    const halves = [0, 0];
    for (let n = 0; n < 7; n++) {
      register = ((register << 1) ^ ((register >> 7) * 0x71)) & 255;
      const bit = 2 ** n - 1;
      if (register & 2) halves[bit >> 5] ^= 1 << (bit & 31);
    }
    return halves;
  });
})();

/** Rotate a number of 64 bits, given as two halves, and return one half. @param {number} a @param {number} b @param {number} bits below 32 */
const rotated = (a, b, bits) => bits ? (a << bits) | (b >>> (32 - bits)) : a;

const sums = new Int32Array(10), row = new Int32Array(10);

/** Keccak-f[1600], on the lower and upper halves of its 25 lanes. @param {Int32Array} state */
function permute(state) {
  for (const [lower, upper] of CONSTANTS) {
    for (let n = 0; n < 10; n++) {
      sums[n] = state[n] ^ state[n + 10] ^ state[n + 20] ^ state[n + 30] ^ state[n + 40];
    }
    for (let n = 0; n < 10; n++) {
      const next = (n + 2) % 10,
        change = sums[(n + 8) % 10] ^ rotated(sums[next], sums[next ^ 1], 1);
      for (let at = n; at < 50; at += 10) state[at] ^= change;
    }
    let low = state[2], high = state[3];
    for (let n = 0; n < 48; n += 2) {
      const at = 2 * LANES[n], bits = LANES[n + 1], first = bits < 32 ? low : high;
      const second = bits < 32 ? high : low;
      low = state[at];
      high = state[at + 1];
      state[at] = rotated(first, second, bits & 31);
      state[at + 1] = rotated(second, first, bits & 31);
    }
    for (let start = 0; start < 50; start += 10) {
      for (let n = 0; n < 10; n++) row[n] = state[start + n];
      for (let n = 0; n < 10; n++) state[start + n] ^= ~row[(n + 2) % 10] & row[(n + 4) % 10];
    }
    state[0] ^= lower;
    state[1] ^= upper;
  }
}
