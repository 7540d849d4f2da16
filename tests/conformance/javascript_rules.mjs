/**
 * Check rules of the JavaScript client that no server can observe: node javascript_rules.mjs SOURCE
 * reads {"list", "key", "survey", "unknown", "answers"} from standard input and writes {rule: null, or the fault}.
 * `unknown` lists surveys that no client knows: an id, and what is unknown.
 *
 * The client runs as in a browser, because only there it sends requests with fetch.
 */

import { readFileSync } from "node:fs";
import { argv, stdout } from "node:process";
import { pathToFileURL } from "node:url";

globalThis.process = undefined;
const { Client, Policy } = await import(new URL("index.js", `${pathToFileURL(argv[2])}/`));
const { list, key, survey, unknown, answers } = JSON.parse(readFileSync(0, "utf8"));
const NOW = Date.UTC(2026, 11, 10, 12), KINDS = { crashed: "bit" };
const realValues = crypto.getRandomValues.bind(crypto);

/** A client whose network, clocks, storage and uniform numbers are controlled by the rule. */
class World {
  records = new Map();
  requests = [];
  reply = { status: 200, headers: {}, body: '{"accepted": 1, "duplicates": 0, "refused": []}' };
  onFetch = () => {};
  onDraw = () => {};
  onCreate = () => {};
  ticks = 0;
  fraction = 0.5; // the value of every uniform number

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
      policy: new Policy({ keys: [key], questions: KINDS, maxEpsilonPerSurvey: "8" }),
      storage: this.disk = this.storage(),
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
  if (actual !== expected) throw new Error(`${what}: ${actual}, expected ${expected}`);
}

/** Run a rule in a world with a document, whose events the rule triggers itself. */
async function onPage(rule) {
  const events = {}, listen = (name, act) => events[name] = act, told = [];
  const post = BroadcastChannel.prototype.postMessage;
  BroadcastChannel.prototype.postMessage = (message) => told.push(message);
  globalThis.document = { addEventListener: listen, hidden: true };
  globalThis.addEventListener = listen;
  try {
    const world = new World();
    equal(await world.answer(), "queued", "status");
    return await rule(world, events, told);
  } finally {
    BroadcastChannel.prototype.postMessage = post;
    delete globalThis.document;
    delete globalThis.addEventListener;
  }
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
    await world.client.flush(60);
    equal(world.requests.length, 2, "requests");
    for (const request of world.requests) {
      equal(request.credentials, "omit", "credentials");
      equal(request.cache, "no-store", "cache");
      equal(request.redirect, "error", "redirect");
      equal(request.keepalive, request.method === "POST", "keepalive");
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
        await world.client.flush(60);
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

  async waiting_reports_are_sent_in_random_order() {
    for (const step of [-1, 1]) { // uniform numbers that fall, and that rise
      const world = new World(), bodies = ["01", "02", "03"];
      await world.client.consent(true);
      const { id: consent } = world.records.get("consent");
      for (const body of bodies) {
        const report = { server: "https://stats.example.org", consent, body, due: 0 };
        world.records.set(`report-${body}`, { ...report, until: NOW + 1 });
      }
      let number = 500;
      Object.defineProperty(world, "fraction", { get: () => (number += step) / 1_000 });
      await world.client.flush(60);
      const sent = world.posts().map(({ body }) => `0${body[0]}`).join();
      equal(sent, (step > 0 ? bodies : bodies.reverse()).join(), "reports in their order");
    }
  },

  async keys_are_destroyed_once_no_report_is_accepted() {
    let now = NOW;
    const world = new World({ now: () => now }), end = Date.UTC(2027, 2, 15); // with its grace
    equal(await world.answer(), "queued", "status");
    for (const [time, keys] of [[end - 1, 1], [end, 0]]) {
      now = time;
      equal(await world.answer(), "closed", "status");
      equal(world.names("key-").length, keys, `keys at ${new Date(time).toISOString()}`);
    }
  },

  async a_reply_that_is_too_long_settles_nothing() {
    for (const [size, left] of [[2 ** 16, 0], [2 ** 16 + 1, 1]]) {
      const world = new World();
      world.reply.body = world.reply.body.padEnd(size);
      equal(await world.answer(), "queued", "status");
      equal(await world.client.flush(60), left, `reports that wait after ${size} bytes`);
    }
  },

  async a_list_from_the_future_is_fetched_again() {
    let now = NOW;
    const world = new World({ now: () => now });
    await world.client.consent(true);
    for (const [time, lists] of [[NOW, 1], [NOW + 1, 1], [NOW - 1, 2]]) {
      now = time;
      await world.client.prefetch();
      equal(world.requests.length - world.posts().length, lists, "lists fetched");
    }
  },

  async no_list_is_fetched_for_a_round_that_is_charged() {
    let now = NOW;
    const world = new World({ now: () => now });
    for (const status of ["queued", "already-answered"]) {
      equal(await world.answer(), status, "status");
      now += 7_200_000;
    }
    equal(world.requests.length - world.posts().length, 1, "lists fetched");
  },

  async consent_after_a_withdrawal_is_another_consent() {
    const world = new World();
    await world.client.consent(true);
    const { id } = world.records.get("consent");
    const put = world.disk.put;
    world.disk.put = () => Promise.reject(new Error("the disk is full"));
    equal(await world.client.consent(false), false, "a withdrawal that is on disk");
    world.disk.put = put;
    equal(await world.client.consent(true), true, "consent");
    equal(world.records.get("consent").id === id, false, "the same consent");
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
    await world.client.flush(60);
    equal(world.posts().length, 0, "posts");
  },

  a_page_that_is_left_sends_what_it_queued_once: () =>
    onPage((world, events) => {
      equal(world.names("try-").length, 1, "attempts that are counted in advance");
      equal(world.posts().length, 0, "posts before");
      events.pagehide(); // nothing is awaited: the page ends here
      equal(world.posts().length, 1, "posts");
      equal(world.posts()[0].keepalive, true, "keepalive");
      events.visibilitychange();
      equal(world.posts().length, 1, "posts in all");
    }),

  a_page_that_is_hidden_sends_what_it_queued: () =>
    onPage((world, events) => {
      document.hidden = false;
      events.visibilitychange();
      equal(world.posts().length, 0, "posts while it is shown");
      document.hidden = true;
      events.visibilitychange();
      equal(world.posts().length, 1, "posts");
    }),

  a_page_that_is_left_keeps_withdrawals_and_pauses: () =>
    onPage(async (world, events, told) => {
      const withdrawal = world.client.consent(false);
      events.pagehide(); // before the withdrawal is on disk
      await withdrawal;
      events.pagehide();
      equal(world.posts().length, 0, "posts after a withdrawal");
      equal(told.splice(0).includes("stay"), true, "other pages hear of a withdrawal");
      await world.client.consent(true);
      world.reply = { status: 503, headers: { "Retry-After": "100" }, body: "" };
      await world.client.forget();
      world.records.clear();
      equal(await world.answer(), "queued", "status");
      await world.client.flush(60);
      equal(world.posts().length, 1, "posts of a flush");
      world.records.clear();
      equal(await world.answer(), "queued", "status");
      events.pagehide();
      equal(world.posts().length, 1, "posts during the pause");
    }),

  async an_unknown_survey_is_refused_with_a_sentence() {
    const world = new World();
    await world.client.consent(true);
    for (const [id, what] of unknown) {
      const outcome = await world.client.answer(id, answers);
      equal(outcome.status, "refused", "status");
      const detail = `the survey ${what}, which this client does not know; ` +
        "a newer version or the client in Python may answer it";
      equal(outcome.detail, detail, "detail");
    }
    await world.client.flush(60);
    equal(world.names("charge-").length + world.names("report-").length, 0, "records");
    equal(world.posts().length, 0, "posts");
    equal(await world.answer(), "queued", "the older survey of the same name");
  },
};

const results = {};
for (const [name, rule] of Object.entries(RULES)) {
  results[name] = await rule().then(() => null, (error) => String(error.message));
}
stdout.write(JSON.stringify(results));
