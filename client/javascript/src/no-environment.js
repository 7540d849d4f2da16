/** Replaces environment.js in bundles for browsers, where there are no such variables. */

/** @type {typeof import("./environment.js").switches} */
export const switches = () => [];
