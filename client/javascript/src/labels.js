/** Labels: public properties of the app or install, sent in clear in front of each report, at a fixed size. */

import {
  MAX_LABELS,
  MAX_PATTERN_CHARACTERS,
  MAX_VALUE_BYTES,
  MAX_VALUES,
  NOT_GIVEN,
} from "./tables.js";
import { isLine, isListOf } from "./text.js";

/** @typedef {{name: string, listed: readonly string[], drawn: boolean, matches: (text: string) => boolean}} Label */

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;
const CLASS = "\\[(?!\\^)(?:[!-,.-Z^-~ ](?:-[!-,.-Z^-~ ])?)+-?\\]";
const PART =
  `(?:\\\\d|\\\\[!-/:-@\\[-\`{-~]|${CLASS}|[^\\\\[\\](){}|?*+^$])(?:[?*+]|\\{\\d{1,2}(?:,\\d{1,2})?\\})?`;

const utf8 = new TextEncoder();

/** @param {unknown} text */
export const isLabelValue = (text) =>
  isLine(text) && utf8.encode(String(text)).length <= MAX_VALUE_BYTES;

/**
 * Read the labels of a survey; undefined if they do not follow the protocol.
 * @param {any} tables @param {string[]} questions @returns {Label[] | undefined}
 */
export function parseLabels(tables, questions) {
  if (!isListOf(tables, 1, MAX_LABELS, parseLabel) || questions.includes("label")) return undefined;
  const labels = /** @type {Label[]} */ (tables.map(parseLabel));
  const names = [...labels.map((label) => label.name), ...questions];
  return new Set(names).size === names.length &&
      labels.filter((label) => label.drawn).length <= 1
    ? labels
    : undefined;
}

/** @param {any} table @returns {Label | undefined} */
function parseLabel(table) {
  const [kind, ...others] = Object.keys(table ?? {}).filter((key) => key !== "name");
  const given = table?.[kind], drawn = kind === "arms";
  if (others.length || typeof table?.name !== "string" || !NAME.test(table.name)) return undefined;
  if (kind === "pattern") {
    const matches = matcher(given);
    return matches && { name: table.name, listed: [], drawn, matches };
  }
  const fits = (drawn || kind === "values") &&
    isListOf(given, drawn ? 2 : 1, MAX_VALUES, isLabelValue);
  return fits ? { name: table.name, listed: given, drawn, matches: () => false } : undefined;
}

/**
 * Return the matcher of a pattern. Each part takes as many characters as it can and gives none back,
 * so no pattern is slow.
 * @param {unknown} pattern @returns {((text: string) => boolean) | undefined}
 */
function matcher(pattern) {
  if (
    typeof pattern !== "string" || !/^[ -~]+$/.test(pattern) || !pattern.trim() ||
    pattern.length > MAX_PATTERN_CHARACTERS
  ) {
    return undefined;
  }
  const found = pattern.match(new RegExp(PART, "g")) ?? [];
  if (found.join("") !== pattern) return undefined;
  try {
    const parts = found.map((part) => new RegExp(part, "y"));
    const matches = (/** @type {string} */ text) =>
      /^[ -~]*$/.test(text) && text.length <= MAX_VALUE_BYTES && taken(parts, text);
    return matches("") ? undefined : matches;
  } catch {
    return undefined; // a range or repetition whose end is before its beginning
  }
}

/** @param {RegExp[]} parts @param {string} text */
function taken(parts, text) {
  let start = 0;
  for (const part of parts) {
    part.lastIndex = start;
    if (!part.test(text)) return false;
    start = part.lastIndex;
  }
  return start === text.length;
}

/** Return the bytes of a value; of one that does not fit, those of no value. @param {Label} label @param {string | undefined} value */
export function encodeLabel(label, value) {
  if (label.listed.length) {
    const index = label.listed.indexOf(value ?? "");
    return Uint8Array.of(index < 0 ? NOT_GIVEN : index);
  }
  const bytes = new Uint8Array(MAX_VALUE_BYTES);
  if (value !== undefined && label.matches(value)) bytes.set(utf8.encode(value));
  return bytes;
}

/** Return the arm that a device draws with its key for the survey. @param {Label} label @param {(text: string) => Promise<Uint8Array>} mac under that key */
export async function drawnArm(label, mac) {
  const u = new DataView((await mac(`arm\0${label.name}`)).slice().buffer).getBigUint64(0, true);
  return label.listed[Number((u * BigInt(label.listed.length)) >> 64n)];
}
