/**
 * Sealed reports, which only the holder of the survey's key can read: HPKE (RFC 9180), base mode,
 * DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, from the primitives of WebCrypto. PROTOCOL.md, section 4.
 */

import { hmac, joined, u32 } from "./envelope.js";
import { Refused, unhex } from "./survey.js";
import { digest } from "./text.js";

const SIZES = [0, 1, 2, 3, 4, 5].map((step) => 256 * 4 ** step); // of the plaintext
const CONTEXT = "deniable sealed envelope v1\0", MARK_BYTES = 8;
const SURVEY_AND_ROUND = /** @type {const} */ ([4, 40]); // their place in an envelope
const KEM = joined("KEM", Uint8Array.of(0, 0x20));
const SUITE = joined("HPKE", Uint8Array.of(0, 0x20, 0, 1, 0, 1));
const NOTHING = new Uint8Array(), ZEROS = new Uint8Array(32); // an absent salt, as HKDF pads it
const X25519 = { name: "X25519" };

/** @param {Uint8Array<ArrayBuffer>} suite @param {Uint8Array<ArrayBuffer>} salt @param {string} label @param {Uint8Array | string} input */
const extract = (suite, salt, label, input) => hmac(salt, "HPKE-v1", suite, label, input);

/** Return `length` bytes, at most 32: one block of HKDF-Expand. @param {Uint8Array<ArrayBuffer>} suite @param {Uint8Array<ArrayBuffer>} key @param {string} label @param {Uint8Array} info @param {number} length */
const expand = async (suite, key, label, info, length) =>
  (await hmac(key, Uint8Array.of(0, length), "HPKE-v1", suite, label, info, Uint8Array.of(1)))
    .slice(0, length);

/** Agree on a secret with a public key. @param {Uint8Array<ArrayBuffer>} recipient @returns {Promise<[Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>]>} the secret, and what the recipient needs */
async function encapsulate(recipient) {
  const own = /** @type {CryptoKeyPair} */ (await crypto.subtle.generateKey(X25519, true, [
    "deriveBits",
  ]));
  const theirs = await crypto.subtle.importKey("raw", recipient, X25519, false, []);
  const shared = await crypto.subtle.deriveBits({ ...X25519, public: theirs }, own.privateKey, 256);
  const sent = new Uint8Array(await crypto.subtle.exportKey("raw", own.publicKey));
  const key = await extract(KEM, ZEROS, "eae_prk", new Uint8Array(shared));
  return [await expand(KEM, key, "shared_secret", joined(sent, recipient), 32), sent];
}

/** Refuse a key to which nothing can be sealed, before any report is made. @param {string | undefined} recipient in hex */
export async function checkSealing(recipient) {
  if (recipient === undefined) return;
  await crypto.subtle.generateKey(X25519, false, ["deriveBits"]).catch(() => {
    throw new Refused("the survey is sealed, and WebCrypto has no X25519 here to seal reports");
  });
  await encapsulate(unhex(recipient)).catch(() => {
    throw new Refused("the survey's document does not follow the protocol: sealed_to");
  });
}

/** Seal an envelope to a public key. Each call returns new bytes, so keep them for retries. @param {Uint8Array} envelope @param {string} recipient in hex */
export async function seal(envelope, recipient) {
  const key = unhex(recipient), [secret, sent] = await encapsulate(key);
  const nothing = await extract(SUITE, ZEROS, "psk_id_hash", NOTHING);
  const context = joined(
    Uint8Array.of(0),
    nothing,
    await extract(SUITE, ZEROS, "info_hash", CONTEXT),
  );
  const schedule = await extract(SUITE, secret, "secret", NOTHING);
  const cipher = await crypto.subtle.importKey(
    "raw",
    await expand(SUITE, schedule, "key", context, 16),
    "AES-GCM",
    false,
    ["encrypt"],
  );
  const padded = new Uint8Array(SIZES.find((size) => size >= envelope.length) ?? NaN);
  padded.set(envelope);
  const iv = await expand(SUITE, schedule, "base_nonce", context, 12);
  const text = new Uint8Array(await crypto.subtle.encrypt({ name: "AES-GCM", iv }, cipher, padded));
  const named = joined(key, envelope.subarray(...SURVEY_AND_ROUND));
  const mark = (await digest(named)).slice(0, MARK_BYTES);
  return joined("DNS1", mark, u32(sent.length + text.length), sent, text);
}
