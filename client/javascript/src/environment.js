/** Environment variables that overrule consent. Bundles for browsers leave this module out. */

import { ROBOTS } from "./tables.js";

/** Return the values of the variables that refuse, whatever consent the app has recorded. @param {boolean} allowCi */
export function switches(allowCi) {
  const environment = globalThis.process?.env ?? {};
  const names = ["DO_NOT_TRACK", "DENIABLE_OFF", ...(allowCi ? [] : ROBOTS)];
  return names.map((name) => environment[name]);
}
