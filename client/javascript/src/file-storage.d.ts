import type { Storage } from "./index.d.ts";

/** Storage in the subfolder `deniable` of a folder, for Node. Any number of processes may share it. */
export function fileStorage(parent: string): Storage;
