/** Many installs of the JavaScript client, each with its own folder; reads settings and people from standard input. */

import { join } from "node:path";
import { text } from "node:stream/consumers";

import { fileStorage } from "../../client/javascript/src/file-storage.js";
import { Client, Policy } from "../../client/javascript/src/index.js";

const AT_ONCE = 32, PATIENT = 60;
const { server, key, survey, questions, folder, people } = JSON.parse(await text(process.stdin));
const policy = new Policy({ keys: [key], questions, maxEpsilonPerRound: "4", maxEpsilonPerSurvey: "12", maxEpsilon: "12" });

async function install(answers, number) {
  const client = new Client(server, { policy, storage: fileStorage(join(folder, String(number))), sendWithin: 86_400 });
  await client.consent(true);
  const { status, detail } = await client.answer(survey, answers);
  if (status !== "queued" || (await client.flush(PATIENT)) !== 0) throw new Error(`${status}: ${detail}`);
  await client.close();
}

const waiting = people.entries();
await Promise.all(Array.from({ length: AT_ONCE }, async () => {
  for (const [number, answers] of waiting) await install(answers, number);
}));
