/** Adapter of the JavaScript client for the line protocol of README.md: node javascript_client.mjs [SOURCE] */

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const SOURCE = process.argv[2]
  ? `${pathToFileURL(process.argv[2])}/`
  : new URL("../../client/javascript/src/", import.meta.url);
const source = (file) => import(new URL(file, SOURCE));
const { envelopeId } = await source("envelope.js");
const { fileStorage } = await source("file-storage.js");
const { Client, Policy } = await source("index.js");
const { MECHANISMS } = await source("mechanisms.js");
const { drawnRounds } = await source("participation.js");
const { roundsOfQuarter } = await source("quarters.js");
const { placeText } = await source("text.js");
const { billionths, hex, parseSurvey, unhex, wholeNumbers } = await source("survey.js");

const PATIENT = 60;
let client, clock;

const view = (bytes) => new DataView(bytes.buffer);
const mechanism = ({ mechanism, epsilon, size, integers = [] }) =>
  MECHANISMS[mechanism].make(billionths(epsilon), size, wholeNumbers(integers));

const OPERATIONS = {
  init({ server, state, policy, labels, relay, now, send_within }) {
    clock = Date.parse(now);
    client = new Client(server, {
      policy: new Policy({
        keys: policy.keys, questions: policy.questions, surveys: policy.surveys, labels: policy.labels,
        maxEpsilonPerRound: policy.max_epsilon_per_round, maxEpsilon: policy.max_epsilon,
        maxEpsilonPerQuestion: policy.max_epsilon_per_question,
        maxEpsilonPerSurvey: policy.max_epsilon_per_survey ?? policy.max_epsilon,
        per: policy.per,
      }),
      storage: fileStorage(state), labels, relay: relay ?? undefined, now: () => clock, sendWithin: send_within,
    });
    return { ready: true };
  },
  clock({ now }) {
    clock = Date.parse(now);
    return {};
  },
  consent: async ({ given }) => ({ kept: await client.consent(given) }),
  answer: async ({ survey, answers, of }) => {
    const { status, survey: id, round, unfit } = await client.answer(survey, answers, { of });
    return { status, survey: id, round, unfit };
  },
  flush: async () => ({ waiting: await client.flush(PATIENT) }),
  forget: async () => ({ done: await client.forget() }),
  randomize(vector) {
    let drawn = unhex(vector.draw);
    const made = mechanism(vector);
    const answer = typeof vector.answer === "number" ? made.answerAt(vector.answer) : vector.answer.split("/").map(BigInt);
    const payload = made.randomize(answer, (count) => {
      const some = drawn.slice(0, count);
      drawn = drawn.slice(count);
      if (count !== some.length) throw new Error(`drew ${count} bytes`);
      return view(some);
    });
    if (drawn.length) throw new Error(`${drawn.length} bytes were not drawn`);
    return { payload: hex(payload) };
  },
  integers: (vector) => ({ integers: mechanism(vector).integers.map(String) }),
  async question({ document, draw }) {
    const drawn = [unhex(draw)];
    const { payloads } = await parseSurvey(document).report([], (count) => view(drawn.pop() ?? new Uint8Array(count)));
    return { question: payloads[0][0] };
  },
  place: async ({ salt, length, buckets, text }) => ({ placed: (await placeText(length, buckets, salt)(text)) ?? null }),
  round({ document, day }) {
    const survey = parseSurvey(document), round = survey.roundOf(Date.parse(day));
    return { round, accepted_until: survey.takenUntil(round) / 1_000 };
  },
  async participation({ document, round, key, budget }) {
    const survey = parseSurvey(document);
    if (survey.period === "once") return { drawn: null };
    const policy = new Policy({ keys: ["0".repeat(64)], questions: { it: "bit" }, maxEpsilonPerSurvey: budget });
    const some = await drawnRounds(survey, round, policy, () => Promise.resolve(unhex(key)));
    return { drawn: some?.drawn ?? roundsOfQuarter(survey, round) };
  },
  envelope_id: async ({ key, survey, round }) => ({ id: hex(await envelopeId(unhex(key), survey, round)) }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { op, ...request } = JSON.parse(line);
  let reply;
  try {
    reply = op in OPERATIONS ? await OPERATIONS[op](request) : { unsupported: op };
  } catch (error) {
    reply = { error: `${error.name}: ${error.message}` };
  }
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}
