/** The transport: plain requests that reveal as little about their sender as the platform allows. */

import { exchange } from "./exchange.js";

const SECONDS = 10;

/** @typedef {{headers: Record<string, string>, bytes: Uint8Array<ArrayBuffer>}} Body */

/** Return the server's address. Throws TypeError unless it is an https address or this machine. @param {string} server */
export function checkedAddress(server) {
  const url = new URL(server);
  const loopback = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname);
  const isSecure = url.protocol === "https:" || url.protocol === "http:" && loopback;
  if (!isSecure || url.username || url.password || url.search || url.hash) {
    throw new TypeError(
      "server: write an https address without user name, ? and #; plain http is for this machine only",
    );
  }
  return url.href.replace(/\/+$/, "");
}

/**
 * Send a request; return the status, JSON if any, and headers. Rejects if no complete reply arrives in time. In a browser, the
 * request begins before the call returns; with `keepalive`, it continues after the page is left.
 * @param {string} server @param {string} path @param {Body | undefined} body @param {number} limit of the reply, in bytes @param {boolean} [keepalive]
 */
export async function request(server, path, body, limit, keepalive = false) {
  const sent = exchange(server + path, body, limit, 1_000 * SECONDS, keepalive);
  const { text, ...reply } = await sent;
  return { ...reply, json: parsed(text) };
}

/** @param {string} text @returns {any} */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
