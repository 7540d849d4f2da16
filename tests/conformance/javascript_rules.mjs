/**
 * Rules of the JavaScript client that no server can see, each checked alone: node javascript_rules.mjs SOURCE
 * reads {"list", "key", "survey", "answers"} from standard input and writes {rule: null, or what is wrong}.
 */

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { Client, Policy } = await import(new URL("index.js", `${pathToFileURL(process.argv[2])}/`));
const { list, key, survey, answers } = JSON.parse(readFileSync(0, "utf8"));
const NOW = Date.UTC(2026, 11, 10, 12), KINDS = { crashed: "bit" };
const realValues = crypto.getRandomValues.bind(crypto);

/** A client with a network, clocks, storage and uniform numbers that the rule controls. */
class World {
  records = new Map();
  requests = [];
  reply = { status: 200, headers: {}, body: '{"accepted": 1, "duplicates": 0, "refused": []}' };
  onFetch = () => {};
  onDraw = () => {};
  onCreate = () => {};
  ticks = 0;
  fraction = 0.5; // of every uniform number

  constructor(options = {}) {
    globalThis.fetch = async (url, request) => {
      this.requests.push({ url, ...request });
      this.onFetch(request);
      if (request.method === "GET") return new Response(list);
      return new Response(this.reply.body, this.reply);
    };
    globalThis.setTimeout = () => ({ unref() {} });
    Object.defineProperty(globalThis, "performance", {
      configurable: true,
      value: { now: () => this.ticks },
    });
    crypto.getRandomValues = (array) =>
      array instanceof Uint32Array ? array.fill(this.fraction * 2 ** 32) : realValues(array);
    this.client = new Client("https://stats.example.org", {
      policy: new Policy({ keys: [key], questions: KINDS }),
      storage: this.storage(),
      now: () => NOW,
      draw: (count) => {
        this.onDraw();
        return new DataView(realValues(new Uint8Array(count)).buffer);
      },
      ...options,
    });
  }

  storage() {
    const records = this.records;
    return {
      get: async (name) => structuredClone(records.get(name)),
      create: async (name, value) => {
        this.onCreate(name);
        return !records.has(name) && Boolean(records.set(name, structuredClone(value)));
      },
      put: async (name, value) => void records.set(name, structuredClone(value)),
      remove: async (name) => void records.delete(name),
      names: async (prefix) => [...records.keys()].filter((name) => name.startsWith(prefix)),
    };
  }

  names = (prefix) => [...this.records.keys()].filter((name) => name.startsWith(prefix));
  posts = () => this.requests.filter((request) => request.method === "POST");
  withdraw = () => this.records.set("consent", { given: false });

  async answer() {
    await this.client.consent(true);
    return (await this.client.answer(survey, answers)).status;
  }
}

function equal(actual, expected, what) {
  if (actual !== expected) throw new Error(`${what}: ${actual}, and it should be ${expected}`);
}

const RULES = {
  async a_browser_s_privacy_signal_overrules_consent() {
    for (const [name, value] of [["globalPrivacyControl", true], ["doNotTrack", "1"]]) {
      Object.defineProperty(globalThis.navigator, name, { value, configurable: true });
      const world = new World();
      try {
        equal(await world.answer(), "no-consent", name);
        equal(world.requests.length, 0, `requests with ${name}`);
      } finally {
        Object.defineProperty(globalThis.navigator, name, { value: undefined, configurable: true });
      }
    }
  },

  async a_request_carries_no_identity() {
    const world = new World();
    equal(await world.answer(), "queued", "status");
    await world.client.flush();
    equal(world.requests.length, 2, "requests");
    for (const request of world.requests) {
      equal(request.credentials, "omit", "credentials");
      equal(request.cache, "no-store", "cache");
      equal(request.redirect, "error", "redirect");
      equal(request.referrerPolicy, "no-referrer", "referrerPolicy");
    }
  },

  async random_time_is_added_to_a_pause_that_the_server_asks_for() {
    for (const [fraction, end] of [[0.5, 150_000], [0.25, 125_000]]) {
      const world = new World();
      world.reply = { status: 503, headers: { "Retry-After": "100" }, body: "" };
      world.fraction = fraction;
      equal(await world.answer(), "queued", "status");
      for (const [ticks, posts] of [[0, 1], [end - 1, 1], [end + 1, 2]]) {
        world.ticks = ticks;
        await world.client.flush();
        equal(world.posts().length, posts, `posts after ${ticks} ms`);
      }
    }
  },

  async a_report_is_due_at_a_random_moment() {
    for (const [fraction, wait] of [[0.5, 30_000], [0.25, 15_000]]) {
      const world = new World({ sendWithin: 60 });
      world.fraction = fraction;
      equal(await world.answer(), "queued", "status");
      const [report] = world.names("report-");
      equal(world.records.get(report).due - NOW, wait, "milliseconds until it is due");
    }
  },

  async consent_is_read_again_before_the_charge() {
    const world = new World();
    world.onFetch = world.withdraw;
    equal(await world.answer(), "no-consent", "status");
    equal(world.names("charge-").length, 0, "charges");
  },

  async consent_is_read_again_before_queueing() {
    const world = new World();
    world.onDraw = world.withdraw;
    equal(await world.answer(), "no-consent", "status");
    equal(world.names("charge-").length, 1, "charges");
    equal(world.names("report-").length, 0, "reports");
  },

  async consent_is_read_again_before_sending() {
    const world = new World();
    equal(await world.answer(), "queued", "status");
    world.onCreate = (name) => name.startsWith("try-") && world.withdraw();
    await world.client.flush();
    equal(world.posts().length, 0, "posts");
  },
};

const results = {};
for (const [name, rule] of Object.entries(RULES)) {
  results[name] = await rule().then(() => null, (error) => String(error.message));
}
process.stdout.write(JSON.stringify(results));
