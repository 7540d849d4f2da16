/** The transport of the platform. Bundles for browsers contain browser-transport.js in its place. */

import * as browser from "./browser-transport.js";

const IN_NODE = typeof process === "object" && Boolean(process.versions?.node);

/** @type {typeof browser.exchange} */
export const exchange = async (...request) =>
  (IN_NODE ? await import("./node-transport.js") : browser).exchange(...request);
