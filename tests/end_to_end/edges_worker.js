/** Worker and service worker: for each message, answers and describes the survey, with the settings in it. */

import { browserStorage } from "/src/browser-storage.js";
import { Client, Policy } from "/src/index.js";
import * as words from "/src/words.js";

self.onmessage = async ({ data: { server, key, storage }, source }) => {
  const policy = new Policy({ keys: [key], questions: { crashed: "bit" } });
  const made = (more) => new Client(server, { policy, storage: browserStorage(storage), sendWithin: 0, ...more });
  const client = made({ words });
  await client.consent(true);
  const { status, detail } = await client.answer("edges", { crashed: true });
  const { text } = await client.describe("edges"), { spent } = await client.budget();
  const unloaded = await made().describe("edges");
  const waiting = await client.flush(30);
  (source ?? self).postMessage({ status, detail, waiting, spent, text, unloaded: unloaded.detail });
};
