/** The transport in a browser: one request by `fetch`, with as little as a page can send. */

/**
 * Return status, body and two headers. Rejects if no complete reply comes in time.
 * @param {string} address @param {import("./transport.js").Body | undefined} body @param {number} limit of the reply's body, in bytes
 * @param {number} milliseconds @param {boolean} keepalive
 */
export async function exchange(address, body, limit, milliseconds, keepalive) {
  const response = await fetch(address, {
    method: body ? "POST" : "GET",
    body: body?.bytes,
    headers: { Accept: "application/json", ...body?.headers },
    credentials: "omit",
    cache: "no-store",
    redirect: "error",
    referrerPolicy: "no-referrer",
    keepalive,
    signal: AbortSignal.timeout(milliseconds),
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
