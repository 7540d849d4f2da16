/** The code of `describe` and `budget`. Pass the module to a client in a service worker: `import * as words from "deniable/words"`. */

/** @internal */
export const budgetOf: unknown;
/** @internal */
export const describe: unknown;
