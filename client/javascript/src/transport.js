/** The transport: plain requests that reveal as little about their sender as the platform allows. */

const IN_NODE = typeof process === "object" && Boolean(process.versions?.node);
const SECONDS = 10;

/** @typedef {{type: string, bytes: Uint8Array<ArrayBuffer>}} Body */

/** Return the server's address. Throws TypeError unless it is an https address or this machine. @param {string} server */
export function checkedAddress(server) {
  const url = new URL(server);
  const loopback = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname);
  if (url.protocol !== "https:" && !(url.protocol === "http:" && loopback)) {
    throw new TypeError("server: write an https address; plain http is for this machine only");
  }
  if (url.username || url.password || url.search || url.hash) {
    throw new TypeError("server: an address has no user name, no ? and no #");
  }
  return url.href.replace(/\/+$/, "");
}

/**
 * Send a request; return the status, JSON if any, and headers. Rejects if no complete reply arrives in time. In a browser, the
 * request begins before the call returns; with `keepalive`, it continues after the page is left.
 * @param {string} server @param {string} path @param {Body | undefined} body @param {number} limit of the reply, in bytes @param {boolean} [keepalive]
 */
export async function request(server, path, body, limit, keepalive = false) {
  const { text, ...reply } = IN_NODE
    ? await (await import("./node-transport.js")).exchange(
      server + path,
      body,
      limit,
      1_000 * SECONDS,
    )
    : await fetched(server + path, body, limit, keepalive);
  return { ...reply, json: parsed(text) };
}

/** @param {string} address @param {Body | undefined} body @param {number} limit @param {boolean} keepalive */
async function fetched(address, body, limit, keepalive) {
  const response = await fetch(address, {
    method: body ? "POST" : "GET",
    body: body?.bytes,
    headers: { Accept: "application/json", ...(body && { "Content-Type": body.type }) },
    credentials: "omit",
    cache: "no-store",
    redirect: "error",
    referrerPolicy: "no-referrer",
    keepalive,
    signal: AbortSignal.timeout(1_000 * SECONDS),
  });
  const text = await bounded(response, limit), { headers } = response;
  return {
    status: response.status,
    text,
    type: headers.get("Content-Type") ?? "",
    retryAfter: headers.get("Retry-After"),
  };
}

/** @param {Response} response @param {number} limit in bytes */
async function bounded(response, limit) {
  const reader = response.body?.getReader(), decoder = new TextDecoder();
  let text = "", size = 0;
  for (let piece = await reader?.read(); piece?.value; piece = await reader?.read()) {
    size += piece.value.length;
    if (size > limit) {
      await reader?.cancel();
      throw new Error("the reply is too large");
    }
    text += decoder.decode(piece.value, { stream: true });
  }
  return text + decoder.decode();
}

/** @param {string} text @returns {any} */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
