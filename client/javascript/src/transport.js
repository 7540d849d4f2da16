/** One plain request at a time, that says as little as the platform allows about who sends it. */

const IN_NODE = typeof process === "object" && Boolean(process.versions?.node);
const SECONDS = 10;

/** The server's address; TypeError unless it is one to send to: https, or this machine. @param {string} server */
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
 * Status, JSON if it is that, and what it says of itself; rejects if no whole reply came in time.
 * @param {string} server @param {string} path @param {{type: string, bytes: Uint8Array<ArrayBuffer>} | undefined} body @param {number} most bytes
 */
export async function request(server, path, body, most) {
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
  const text = await bounded(response, most), { headers } = response;
  return {
    status: response.status,
    json: parsed(text),
    type: headers.get("Content-Type") ?? "",
    retryAfter: headers.get("Retry-After"),
  };
}

/** @param {Response} response @param {number} most bytes */
async function bounded(response, most) {
  const reader = response.body?.getReader(), decoder = new TextDecoder();
  let text = "", size = 0;
  for (let piece = await reader?.read(); piece?.value; piece = await reader?.read()) {
    size += piece.value.length;
    if (size > most) {
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
