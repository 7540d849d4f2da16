/** Prefixes of a text, hashed into buckets: PROTOCOL.md, section 3, "Texts". */

import { MAX_TEXT_CHARACTERS } from "./tables.js";

const FIRST = 4, FINAL = 6, HEAD_BYTES = 16;
const utf8 = new TextEncoder();

/** @param {ArrayBuffer | Uint8Array} bytes */
export const hex = (bytes) =>
  Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** @param {Uint8Array<ArrayBuffer>} bytes */
export const digest = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

/** @param {unknown} text */
export const isLine = (text) =>
  typeof text === "string" && /^(?:[^\p{C}\p{Z}]| )+$/u.test(text) && text.trim() !== "" &&
  [...text].length <= MAX_TEXT_CHARACTERS;

/** Return whether a value is a list of different items that all fit. @param {any} list @param {number} low @param {number} high @param {(item: any) => unknown} fits @returns {list is any[]} */
export const isListOf = (list, low, high, fits) =>
  Array.isArray(list) && list.length >= low && list.length <= high &&
  new Set(list).size === list.length && list.every(fits);

/** Return the number of hex digits that each group hashes. @param {number} length of a text, in bytes */
export const digitsOf = (length) => [
  ...Array.from({ length: 2 * length - FIRST + 1 }, (_, n) => FIRST + n),
  ...Array.from({ length: FINAL }, () => 2 * length),
];

/**
 * Return the text's bucket in each group; undefined if the text is invalid. Every answer is hashed.
 * @param {number} length @param {number} buckets @param {string} salt
 * @returns {(answer: unknown) => Promise<number[] | undefined>}
 */
export function placeText(length, buckets, salt) {
  const counts = digitsOf(length), salted = utf8.encode(`deniable text v1\0${salt}\0`);
  const heads = Promise.all(
    counts.map(async (_, group) =>
      (await digest(Uint8Array.of(...salted, group))).slice(0, HEAD_BYTES)
    ),
  );
  return async (answer) => {
    const text = typeof answer === "string" ? answer.slice(0, 2 * length) : "";
    const counted = whole(text, length);
    const fits = isLine(Array.from(text).slice(0, Array.from(counted).length).join(""));
    const digits = filled(counted, length);
    const placed = await Promise.all((await heads).map(async (head, group) => {
      const beginning = utf8.encode(digits.slice(0, counts[group] - 1));
      const words = new DataView((await digest(Uint8Array.of(...head, ...beginning))).buffer);
      return words.getUint16(2 * parseInt(digits[counts[group] - 1], 16), true) % buckets;
    }));
    return [undefined, placed][Number(fits)];
  };
}

/** Return the complete characters that fit into a number of bytes; a lone surrogate counts as one byte. @param {string} text @param {number} length */
function whole(text, length) {
  const bytes = utf8.encode(text.replace(/\p{Cs}/gu, "?")).slice(0, length);
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes, { stream: true });
}

/** Return the hex digits of a text's bytes, padded with zeros. @param {string} text @param {number} length */
const filled = (text, length) =>
  hex(utf8.encode(text))
    .padEnd(2 * length, "0");
