/** Labels of the JavaScript client: reads one JSON table from standard input, and writes one to standard output. */

import { text } from "node:stream/consumers";

import { hmac } from "../../client/javascript/src/envelope.js";
import { fileStorage } from "../../client/javascript/src/file-storage.js";
import { Client, Policy } from "../../client/javascript/src/index.js";
import { drawnArm, encodeLabel } from "../../client/javascript/src/labels.js";
import { hex, parseSurvey, unhex } from "../../client/javascript/src/survey.js";

const asked = JSON.parse(await text(process.stdin));

const JOBS = {
  bytes({ document, reports }) {
    const { labels } = parseSurvey(document);
    return reports.map((given) =>
      labels.map((label) => hex(encodeLabel(label, given[label.name] ?? undefined))).join("")
    );
  },
  arms({ document, keys }) {
    const label = parseSurvey(document).labels.find(({ drawn }) => drawn);
    return Promise.all(keys.map((key) => drawnArm(label, (text) => hmac(unhex(key), text))));
  },
  refused({ documents }) {
    return documents.map((document) => {
      try {
        parseSurvey(document);
        return "";
      } catch (error) {
        return `${error.constructor.name}: ${error.message}`;
      }
    });
  },
  async client({ server, key, folder, labels, allowed, survey, shipped }) {
    const policy = new Policy({ keys: [key], questions: { crashed: "bit" }, labels: allowed, per: "lifetime" });
    const client = new Client(server, { policy, storage: fileStorage(folder), sendWithin: 0, labels });
    const before = await client.arm(survey, shipped);
    await client.consent(true);
    const first = await client.answer(survey, { crashed: true });
    const arms = [before ?? null, await client.arm(survey) ?? null, await client.arm("other") ?? null];
    await client.flush(60);
    await client.close();
    return { status: first.status, detail: first.detail, arms };
  },
  mistakes({ mistakes }) {
    return mistakes.map((options) => {
      try {
        const policy = new Policy({ keys: ["ab".repeat(32)], questions: { it: "bit" }, labels: ["version"] });
        new Client("https://stats.example.org", { policy, storage: {}, ...options });
        return "";
      } catch (error) {
        return error.constructor.name;
      }
    });
  },
};

console.log(JSON.stringify(await JOBS[asked.job](asked)));
