/** Storage in IndexedDB, for browsers: shared by the tabs of one origin. */

import { Unusable } from "./survey.js";

/**
 * A record is on disk when its transaction has completed (`durability: "strict"`). `add` fails if the
 * record exists, so only one tab creates it.
 * @param {string} [name] the database's name @returns {import("./ledger.js").Storage}
 */
export function browserStorage(name = "deniable") {
  /** @type {Promise<IDBDatabase> | undefined} */
  let opened;

  /** @template T @param {IDBTransactionMode} mode @param {(records: IDBObjectStore) => IDBRequest<T>} act @returns {Promise<T>} */
  async function transaction(mode, act) {
    opened ??= open(name, mode === "readwrite", () => opened = undefined).catch((error) => {
      opened = undefined;
      throw error;
    });
    const database = await opened;
    return new Promise((resolve, reject) => {
      const under = database.transaction("records", mode, { durability: "strict" });
      const request = act(under.objectStore("records"));
      under.oncomplete = () => resolve(request.result);
      under.onabort = () => reject(under.error);
    });
  }
  return {
    get: (key) =>
      usable(transaction("readonly", (records) => records.get(key)), "AbortError", undefined),
    put: (key, value) =>
      usable(transaction("readwrite", (records) => records.put(value, key)).then(() => {})),
    create: (key, value) =>
      usable(
        transaction("readwrite", (records) => records.add(value, key)).then(() => true),
        "ConstraintError",
        false,
      ),
    remove: (key) => usable(transaction("readwrite", (records) => records.delete(key))),
    names: (prefix) => {
      const range = IDBKeyRange.bound(prefix, `${prefix}\uffff`);
      const keys = transaction("readonly", (records) => records.getAllKeys(range));
      return usable(keys.then((all) => all.map(String)), "AbortError", []);
    },
  };
}

/**
 * Open the database. Rejects with AbortError if there is none and `make` is false. The connection closes when another page wants to
 * change or delete the database, which would otherwise wait for this page.
 * @param {string} name @param {boolean} make @param {() => void} closed @returns {Promise<IDBDatabase>}
 */
const open = (name, make, closed) =>
  new Promise((resolve, reject) => {
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () =>
      make ? request.result.createObjectStore("records") : request.transaction?.abort();
    request.onsuccess = () => {
      const database = request.result;
      database.onclose = closed;
      database.onversionchange = () => {
        closed();
        database.close();
      };
      resolve(database);
    };
    request.onerror = () => reject(request.error);
  });

/** @template T @param {Promise<T>} work @param {string} [expected] an error's name @param {T} [instead] @returns {Promise<T>} */
const usable = (work, expected, instead) =>
  work.catch((error) => {
    if (expected && error?.name === expected) return /** @type {T} */ (instead);
    throw new Unusable(`IndexedDB cannot be used (${error?.name}); nothing was sent`);
  });
