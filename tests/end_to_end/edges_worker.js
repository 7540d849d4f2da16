/** Worker and service worker: answers once for each message, with the settings in it. */

import { browserStorage } from "/src/browser-storage.js";
import { Client, Policy } from "/src/index.js";

self.onmessage = async ({ data: { server, key, storage }, source }) => {
  const client = new Client(server, {
    policy: new Policy({ keys: [key], questions: { crashed: "bit" } }),
    storage: browserStorage(storage),
    sendWithin: 0,
  });
  await client.consent(true);
  const { status, detail } = await client.answer("edges", { crashed: true });
  (source ?? self).postMessage({ status, detail, waiting: await client.flush(30) });
};
