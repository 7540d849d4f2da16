/** Storage in a subfolder of its own, for Node: one file for each record, which only its owner can read. */

import { randomUUID, webcrypto } from "node:crypto";
import { link, mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";

import { Unusable } from "./survey.js";

const HOUR = 3_600_000;

/** @type {any} */ (globalThis).crypto ??= webcrypto; // Node 18 has no global crypto

/**
 * Any number of processes may share the folder. A file appears complete and on disk, or not at all. To
 * create a record, its file is linked to a free name, and the file system lets only one process succeed.
 * @param {string} parent a folder that may hold other files @returns {import("./ledger.js").Storage}
 */
export function fileStorage(parent) {
  if (/^postgres(ql)?:/.test(parent)) {
    throw new TypeError(
      "fileStorage: give a folder; only the Python client keeps its state in PostgreSQL",
    );
  }
  const folder = join(parent, "deniable");
  /** @type {Promise<void> | undefined} */
  let adopted;
  return records(folder, () => adopted ??= adopt(parent, folder));
}

/** @param {string} folder @param {() => Promise<void>} ready @returns {import("./ledger.js").Storage} */
function records(folder, ready) {
  /** @type {Promise<void> | undefined} */
  let swept;
  /** @param {string} name @param {unknown} value @param {(from: string, to: string) => Promise<void>} place */
  async function write(name, value, place) {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await (swept ??= sweep(folder).catch(() => {})); // the next process tries again
    const temporary = join(folder, `temporary-${randomUUID()}`);
    try {
      await synced(temporary, "wx", (file) => file.writeFile(JSON.stringify(value)));
      await place(temporary, join(folder, name));
    } finally {
      await rm(temporary, { force: true });
    }
    await synced(folder, "r"); // the new name must reach the disk too
  }
  return {
    within: (name) => records(join(folder, name), ready),
    get: (name) =>
      usable(
        ready().then(() => readFile(join(folder, name), "utf8")).then(JSON.parse),
        "ENOENT",
        undefined,
      ),
    put: (name, value) => usable(ready().then(() => write(name, value, rename))),
    create: (name, value) =>
      usable(ready().then(() => write(name, value, link)).then(() => true), "EEXIST", false),
    remove: (name) => usable(ready().then(() => rm(join(folder, name), { force: true }))),
    names: (prefix) =>
      usable(
        ready().then(() => readdir(folder))
          .then((all) => all.filter((name) => name.startsWith(prefix))),
        "ENOENT",
        [],
      ),
  };
}

/** Remove the files that killed processes left behind. No process keeps one for long. @param {string} folder */
async function sweep(folder) {
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    if (!name.startsWith("temporary-")) continue;
    const changed = await stat(path).then((file) => file.mtimeMs, () => Date.now());
    if (changed < Date.now() - HOUR) await rm(path, { force: true });
  }
}

/**
 * Move the records of version 0.1.0, which had no subfolder: a lost ledger would refill the budget.
 * @param {string} parent @param {string} folder
 */
async function adopt(parent, folder) {
  const names = await readdir(parent).catch(() => /** @type {string[]} */ ([]));
  if (!names.includes("charge-1")) return;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  for (const name of names.filter((name) => RECORD.test(name))) {
    await rename(join(parent, name), join(folder, name)).catch((error) => {
      if (error?.code !== "ENOENT") throw error; // another process was faster
    });
  }
}
const RECORD =
  /^(consent|participation|charge-\d+|(key|closed|list|report|round|try)-[0-9a-f]{64}[0-9-]*)$/;

/** @param {string} path @param {string} flags @param {(file: import("node:fs/promises").FileHandle) => Promise<void>} [change] */
async function synced(path, flags, change) {
  const file = await open(path, flags, 0o600);
  try {
    await change?.(file);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** @template T @param {Promise<T>} work @param {string} [expected] an error's code @param {T} [instead] @returns {Promise<T>} */
const usable = (work, expected, instead) =>
  work.catch((error) => {
    if (expected && error?.code === expected) return /** @type {T} */ (instead);
    throw new Unusable(
      `the state folder cannot be used (${error?.code ?? "damaged"}); nothing was sent`,
    );
  });
