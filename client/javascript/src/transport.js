/** The transport: plain requests that reveal as little about their sender as the platform allows. */

const IN_NODE = typeof process === "object" && Boolean(process.versions?.node);
const SECONDS = 10;

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
 * Send a request; return the status, JSON if any, and headers. Rejects if no complete reply arrives in time.
 * @param {string} server @param {string} path @param {{type: string, bytes: Uint8Array<ArrayBuffer>} | undefined} body @param {number} limit in bytes
 */
export async function request(server, path, body, limit) {
  const response = await fetch(server + path, {
    method: body ? "POST" : "GET",
    body: body?.bytes,
    headers: {
      Accept: "application/json",
      ...(body && { "Content-Type": body.type }),
      ...(IN_NODE && { "User-Agent": "deniable" }),
    },
    credentials: "omit",
    cache: "no-store",
    redirect: "error",
    referrerPolicy: "no-referrer",
    signal: AbortSignal.timeout(1_000 * SECONDS),
  });
  const text = await bounded(response, limit), { headers } = response;
  return {
    status: response.status,
    json: parsed(text),
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
