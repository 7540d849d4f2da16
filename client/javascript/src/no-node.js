/** Replaces the modules for Node in bundles for browsers, which have no sockets and no environment. */

export const exchange = undefined;
/** @returns {string[]} */
export const switches = () => [];
