/**
 * The transport in Node: one request, written as one block of bytes to a socket of its own.
 *
 * Error trackers and tracers patch `fetch` and `node:http`, or listen to what these publish, and add their
 * ids to every request. They cannot change bytes that are written to a socket here. Each request has a new
 * connection and resumes no TLS session, so only address and time can link two requests.
 */

import { connect, isIP } from "node:net";
import { connect as connectSecurely } from "node:tls";

const MAX_HEAD_BYTES = 2 ** 16; // also of everything that frames the body

/**
 * Return status, body and two headers; a redirect is a reply like any other. Rejects if no complete reply comes in time.
 * @param {string} address @param {import("./transport.js").Body | undefined} body @param {number} limit of the reply's body, in bytes @param {number} milliseconds
 */
export async function exchange(address, body, limit, milliseconds) {
  const url = new URL(address), socket = connected(url);
  const late = () => socket.destroy(new Error("no complete reply came in time"));
  const timer = setTimeout(late, milliseconds);
  try {
    socket.write(block(url, body));
    return await reply(new Incoming(socket, limit + MAX_HEAD_BYTES), limit);
  } finally {
    clearTimeout(timer);
    socket.destroy();
  }
}

/** @param {URL} url @returns {import("node:net").Socket} */
function connected({ protocol, hostname, port }) {
  const host = hostname.replace(/^\[|\]$/g, ""), servername = isIP(host) ? "" : host;
  const where = { host, noDelay: true, autoSelectFamily: true };
  return protocol === "https:"
    ? connectSecurely({ ...where, port: Number(port || 443), servername, rejectUnauthorized: true })
    : connect({ ...where, port: Number(port || 80) });
}

/** Return a whole request: the same headers as the client in Python sends. @param {URL} url @param {import("./transport.js").Body | undefined} body */
function block(url, body) {
  const head = [
    `${body ? "POST" : "GET"} ${url.pathname} HTTP/1.1`,
    `Host: ${url.host}`,
    ...(body ? [`Content-Length: ${body.bytes.length}`] : []),
    "User-Agent: deniable",
    "Accept: application/json",
    "Accept-Encoding: identity",
    "Connection: close",
    ...Object.entries(body?.headers ?? {}).map(([name, value]) => `${name}: ${value}`),
  ];
  const bytes = Buffer.from(`${head.join("\r\n")}\r\n\r\n`, "latin1");
  return body ? Buffer.concat([bytes, body.bytes]) : bytes;
}

/** @param {Incoming} incoming @param {number} limit */
async function reply(incoming, limit) {
  let { status, headers } = await head(incoming);
  while (status >= 100 && status < 200) ({ status, headers } = await head(incoming));
  const text = new TextDecoder().decode(await content(incoming, headers, limit));
  return {
    status,
    text,
    type: headers.get("content-type") ?? "",
    retryAfter: headers.get("retry-after") ?? null,
  };
}

/** @param {Incoming} incoming */
async function head(incoming) {
  const status = /^HTTP\/1\.[01] (\d{3})( |$)/.exec(await incoming.line())?.[1];
  if (!status) throw new Error("the reply is not HTTP");
  const headers = new Map();
  for (let line = await incoming.line(); line; line = await incoming.line()) {
    const colon = line.indexOf(":");
    headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
  }
  return { status: Number(status), headers };
}

/** @param {Incoming} incoming @param {Map<string, string>} headers @param {number} limit */
function content(incoming, headers, limit) {
  const length = headers.get("content-length") ?? "";
  if (/chunked$/i.test(headers.get("transfer-encoding") ?? "")) return chunks(incoming, limit);
  if (!length) return incoming.rest(limit);
  return incoming.take(size(/^\d+$/.test(length) ? Number(length) : NaN, limit));
}

/** @param {Incoming} incoming @param {number} limit */
async function chunks(incoming, limit) {
  const pieces = [];
  let total = 0;
  for (;;) {
    const length = /^[0-9a-f]+/i.exec(await incoming.line())?.[0];
    const next = size(length ? parseInt(length, 16) : NaN, limit - total);
    if (!next) return Buffer.concat(pieces);
    pieces.push(await incoming.take(next));
    total += next;
    if (await incoming.line()) throw new Error("the reply is not HTTP");
  }
}

/** Return a size that a reply declares. @param {number} bytes @param {number} limit */
function size(bytes, limit) {
  if (!(bytes <= limit)) throw new Error("the reply is too large, or is not HTTP");
  return bytes;
}

/** The bytes that arrive at a socket, up to a limit. */
class Incoming {
  #pieces;
  #left;
  #bytes = Buffer.alloc(0);

  /** @param {import("node:net").Socket} socket @param {number} limit */
  constructor(socket, limit) {
    this.#pieces = socket[Symbol.asyncIterator]();
    this.#left = limit;
  }

  /** Wait for more bytes, and return whether there are any. */
  async #more() {
    const { value, done } = await this.#pieces.next();
    if (done) return false;
    this.#left -= value.length;
    size(0, this.#left);
    this.#bytes = Buffer.concat([this.#bytes, value]);
    return true;
  }

  /** Return the next line, without its end. */
  async line() {
    let end = this.#bytes.indexOf("\r\n");
    for (; end < 0; end = this.#bytes.indexOf("\r\n")) {
      size(this.#bytes.length, MAX_HEAD_BYTES);
      if (!(await this.#more())) throw new Error("the reply is cut short");
    }
    const line = this.#bytes.toString("latin1", 0, end);
    this.#bytes = this.#bytes.subarray(end + 2);
    return line;
  }

  /** Return the next bytes, this many. @param {number} count */
  async take(count) {
    const pieces = [];
    for (let left = count; left > 0; left -= pieces[pieces.length - 1].length) {
      if (!this.#bytes.length && !(await this.#more())) throw new Error("the reply is cut short");
      pieces.push(this.#bytes.subarray(0, left));
      this.#bytes = this.#bytes.subarray(left);
    }
    return Buffer.concat(pieces);
  }

  /** Return everything up to the end. @param {number} limit */
  async rest(limit) {
    const pieces = [this.#bytes];
    let total = this.#bytes.length;
    for (this.#bytes = Buffer.alloc(0); await this.#more(); this.#bytes = Buffer.alloc(0)) {
      pieces.push(this.#bytes);
      total += size(this.#bytes.length, limit - total);
    }
    size(total, limit);
    return Buffer.concat(pieces);
  }
}
