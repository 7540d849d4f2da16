import type { Storage } from "./index.d.ts";

/** Storage in an IndexedDB database, for browsers: shared by the pages and workers of one origin. */
export function browserStorage(name?: string): Storage;
