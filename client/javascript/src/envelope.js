/** The envelope: one report of one survey and round under one id, as bytes. */

import { unhex } from "./survey.js";

/** Return whether an envelope is sealed, by the letters at its beginning. @param {Uint8Array} bytes */
export const isSealed = (bytes) => bytes[2] === "S".charCodeAt(0);

/** Return the media type of an envelope's bytes. @param {Uint8Array} bytes */
export const contentType = (bytes) =>
  `application/vnd.deniable.${isSealed(bytes) ? "sealed" : "envelopes"}`;

/** @param {...(Uint8Array | string)} parts */
export function joined(...parts) {
  return Uint8Array.from(
    parts.flatMap((part) =>
      Array.from(typeof part === "string" ? new TextEncoder().encode(part) : part)
    ),
  );
}

/** @param {number} number */
export function u32(number) {
  const view = new DataView(new ArrayBuffer(4));
  view.setUint32(0, number, true);
  return new Uint8Array(view.buffer);
}

/**
 * Return the id of an envelope: the same on every retry, and not linkable between rounds or surveys.
 * @param {Uint8Array<ArrayBuffer>} key this device's random key for this survey @param {string} survey @param {number} round
 */
export async function envelopeId(key, survey, round) {
  return (await hmac(key, "id\0", unhex(survey), u32(round))).slice(0, 16);
}

/** Return an HMAC-SHA256. @param {Uint8Array<ArrayBuffer>} key @param {...(Uint8Array | string)} parts */
export async function hmac(key, ...parts) {
  const imported = await crypto.subtle.importKey(
    "raw",
    key,
    { name: "HMAC", hash: "SHA-256" },
    false,
    ["sign"],
  );
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, joined(...parts)));
}

/** @param {string} survey @param {number} round @param {Uint8Array} id @param {Uint8Array[]} payloads of one report, in order */
export function packEnvelope(survey, round, id, payloads) {
  const payload = joined(...payloads);
  return joined("DNB1", unhex(survey), u32(round), id, u32(1), u32(payload.length), payload);
}
