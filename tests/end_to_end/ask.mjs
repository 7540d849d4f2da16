/* Many browsers on the respondent page, in one process of Chromium: each has a context of its own, with its own storage.

   Reads { browser, flags, axe, server, pages, people, shots } in JSON on standard input, and prints one JSON document:
   what each scene saw. The tests judge it. It speaks the browser's own protocol, by a pipe. */

import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";

const asked = JSON.parse(readFileSync(0, "utf8"));
const axe = readFileSync(asked.axe, "utf8");
const browser = spawn(asked.browser, [...asked.flags, "--remote-debugging-pipe", "about:blank"], {
  stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
});
const [, , , toBrowser, fromBrowser] = browser.stdio;
const waiting = new Map(), tabs = new Map();
let last = 0, rest = "";
fromBrowser.setEncoding("utf8").on("data", (text) => {
  const parts = (rest + text).split("\0");
  rest = parts.pop();
  for (const part of parts) {
    const { id, method, params, sessionId, result, error } = JSON.parse(part);
    if (id === undefined) tabs.get(sessionId)?.hear(method, params);
    else if (error) waiting.get(id).reject(new Error(JSON.stringify(error)));
    else waiting.get(id).resolve(result);
    waiting.delete(id);
  }
});

const send = (method, params = {}, sessionId) =>
  new Promise((resolve, reject) => {
    waiting.set(++last, { resolve, reject });
    toBrowser.write(JSON.stringify({ id: last, method, params, sessionId }) + "\0");
  });
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class Tab {
  requests = [];
  sentHeaders = []; // of all requests, with those that the browser adds
  console = [];
  listeners = new Set();
  replace = new Map();

  hear(method, params) {
    if (method === "Network.requestWillBeSent" && !params.request.url.startsWith("data:")) {
      const { url, method: verb, postData = "", postDataEntries = [], headers } = params.request;
      const bytes = postDataEntries.map(({ bytes }) => bytes ?? "").join("");
      this.requests.push({ id: params.requestId, method: verb, url, headers, bytes, postData });
    }
    if (method === "Network.requestWillBeSentExtraInfo") this.sentHeaders.push(...Object.keys(params.headers).map((name) => name.toLowerCase()));
    if (method === "Runtime.consoleAPICalled") this.console.push(JSON.stringify(params.args));
    if (method === "Runtime.exceptionThrown") this.console.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === "Log.entryAdded" && params.entry.source !== "network") this.console.push(params.entry.text);
    if (method === "Fetch.requestPaused") this.answer(params);
    for (const listener of this.listeners) listener(method);
  }

  /** Let a request through, or answer it with other bytes. */
  async answer({ requestId, request: { url } }) {
    const [, change] = [...this.replace].find(([part]) => url.includes(part)) ?? [];
    if (!change) return this.tell("Fetch.continueRequest", { requestId });
    if (change === UNREACHABLE) return this.tell("Fetch.failRequest", { requestId, errorReason: "InternetDisconnected" });
    const body = Buffer.from(change(await (await fetch(url)).text())).toString("base64");
    const type = url.endsWith(".js") ? "text/javascript" : "application/json";
    const responseHeaders = [{ name: "Content-Type", value: type }, { name: "Access-Control-Allow-Origin", value: "*" }];
    return this.tell("Fetch.fulfillRequest", { requestId, responseCode: 200, responseHeaders, body });
  }

  tell = (method, params) => send(method, params, this.session);

  async evaluate(expression) {
    const done = await this.tell("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (done.exceptionDetails) throw new Error(`${expression}: ${done.exceptionDetails.exception?.description}`);
    return done.result.value;
  }

  /** Wait until the claim is true, also across loads of pages. */
  async until(claim) {
    for (let n = 0; n < 600; n++) {
      if (await this.evaluate(claim).catch(() => false)) return;
      await pause(25);
    }
    throw new Error(`never so: ${claim}; on the page: ${await this.text()}`);
  }

  text = () => this.evaluate("document.body.innerText");

  async goto(url, claim = READY) {
    await this.tell("Page.navigate", { url });
    await this.until(`location.href.startsWith("${url.split("#")[0]}") && (${claim})`);
  }

  async click(selector) {
    await this.evaluate(`document.querySelector(${JSON.stringify(selector)}).click()`);
  }

  async press(answer) {
    await this.click(`#ask input[value="${answer}"]`);
    await this.click("#ask .send");
  }

  async respond(answer) {
    await this.press(answer);
    await this.until(RESULT);
    return this.text();
  }

  online = (isOnline) =>
    this.tell("Network.emulateNetworkConditions", {
      offline: !isOnline, latency: 0, downloadThroughput: -1, uploadThroughput: -1,
    });

  get posts() {
    return this.requests.filter(({ method }) => method === "POST");
  }

  close = () => send("Target.closeTarget", { targetId: this.target });
}

const UNREACHABLE = () => "";
const READY = "!!document.querySelector('#ask form, #ask .note, #ask .result')";
const RESULT = "!!document.querySelector('#ask .result, #ask .note')";

async function context() {
  return (await send("Target.createBrowserContext", { disposeOnDetach: true })).browserContextId;
}

async function open(browserContextId, before = "") {
  const tab = new Tab();
  const { targetId } = await send("Target.createTarget", { url: "about:blank", browserContextId });
  const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
  [tab.target, tab.session] = [targetId, sessionId];
  tabs.set(sessionId, tab);
  await Promise.all(["Page", "Runtime", "Log", "Network"].map((domain) => tab.tell(`${domain}.enable`)));
  if (before) await tab.tell("Page.addScriptToEvaluateOnNewDocument", { source: before });
  return tab;
}

const opened = async (before) => open(await context(), before);

/** Everything that a browser keeps of a page, as text: IndexedDB, storages, cookies, address, history and title. */
const KEPT = `(async () => {
  const records = {};
  for (const { name } of await indexedDB.databases()) {
    const database = await new Promise((done) => { const r = indexedDB.open(name); r.onsuccess = () => done(r.result); });
    const store = database.transaction("records").objectStore("records");
    const [keys, values] = await Promise.all([store.getAllKeys(), store.getAll()].map((r) => new Promise((done) => r.onsuccess = () => done(r.result))));
    keys.forEach((key, n) => records[key] = values[n]);
    database.close();
  }
  const caches_ = self.caches ? await caches.keys() : [];
  return { records, rest: [{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href, history.state, document.title, document.referrer, caches_] };
})()`;

const DRAW = `(() => {
  const terms = [...document.querySelectorAll("#ask dd")].map((term) => term.textContent);
  return { terms, sent: document.querySelector("#ask .sent")?.textContent, text: document.querySelector("#ask .result")?.innerText };
})()`;

/** Records what the page does until it starts to send: each access to storage, each draw, hash, timer and request. */
const OPERATIONS = `(() => {
  const done = globalThis.operations = [];
  const short = (text) => String(text).replace(/[0-9a-f]{32,}/g, "HEX");
  const size = (value) => value?.byteLength ?? JSON.stringify(value).replace(/:[0-9.]+/g, ":N").length;
  const record = (object, name, shown) => {
    const was = object[name];
    object[name] = function (...given) {
      if (!done.some(([, key]) => key === "ask-HEX-0")) done.push([name, ...shown(...given).map(short)]);
      return was.apply(this, given);
    };
  };
  for (const name of ["put", "add"]) record(IDBObjectStore.prototype, name, (value, key) => [key, size(value)]);
  for (const name of ["get", "delete"]) record(IDBObjectStore.prototype, name, (key) => [key]);
  for (const name of ["getAll", "getAllKeys"]) record(IDBObjectStore.prototype, name, (range) => [range.lower]);
  for (const name of ["digest", "sign", "verify"]) record(SubtleCrypto.prototype, name, (...given) => [size(given.at(-1))]);
  record(SubtleCrypto.prototype, "importKey", (form, key) => [form, size(key)]);
  record(Crypto.prototype, "getRandomValues", (view) => [view.byteLength]);
  for (const name of ["open", "databases"]) record(IDBFactory.prototype, name, () => []);
  record(globalThis, "setTimeout", () => []);
  record(globalThis, "fetch", (address) => [address]);
})()`;

const bytesOf = ({ bytes }) => Buffer.from(bytes, "base64").toString("hex");
const CODE = "Deniable-Invitation";
const seenUrls = (tab) => tab.requests.map(({ url }) => url);
const seen = (tab) => tab.requests.map(({ method, url }) => [method, url]);
const page = (name) => `${asked.server}/ask/${name}`;

const FINDINGS = `axe.run(document).then(({ violations }) => violations.map(({ id, nodes }) => id + ": " + nodes[0].html.slice(0, 200)))`;

async function looked(tab, name) {
  const found = [];
  for (const [width, scheme] of [[1280, "light"], [390, "dark"], [320, "light"]]) {
    await tab.tell("Emulation.setDeviceMetricsOverride", { width, height: 800, deviceScaleFactor: 1, mobile: false });
    await tab.tell("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
    await tab.evaluate(`${axe}; 0`);
    found.push(...(await tab.evaluate(FINDINGS)).map((one) => `${name}, ${width}, ${scheme}: ${one}`));
    const wider = await tab.evaluate("document.documentElement.scrollWidth - innerWidth");
    if (wider > 0) found.push(`${name} is ${wider} px too wide at ${width} px`);
    const moving = await tab.evaluate("document.getAnimations().length");
    if (moving) found.push(`${name} moves`);
    if (!asked.shots) continue;
    const { cssContentSize: { height } } = await tab.tell("Page.getLayoutMetrics");
    const clip = { x: 0, y: 0, width, height, scale: 1 };
    const { data } = await tab.tell("Page.captureScreenshot", { format: "png", captureBeyondViewport: true, clip });
    mkdirSync(asked.shots, { recursive: true });
    writeFileSync(`${asked.shots}/ask-${name}-${width}-${scheme}.png`, Buffer.from(data, "base64"));
  }
  return found;
}

async function key(tab, name, text = "") {
  const code = { Tab: 9, " ": 32, Enter: 13, ArrowDown: 40 }[name];
  const event = { key: name, code: name === " " ? "Space" : name, windowsVirtualKeyCode: code, text };
  await tab.tell("Input.dispatchKeyEvent", { type: "keyDown", ...event });
  await tab.tell("Input.dispatchKeyEvent", { type: "keyUp", ...event });
}

const SCENES = {
  /** Each person in a browser of their own; the first half says yes. */
  async people() {
    const people = [];
    for (let n = 0; n < asked.people; n++) {
      const answer = n < asked.people / 2 ? 1 : 0, tab = await opened(OPERATIONS);
      await tab.goto(page(asked.pages.bit));
      await tab.respond(answer);
      const operations = await tab.evaluate("operations");
      const drawn = await tab.evaluate(DRAW), kept = await tab.evaluate(KEPT);
      people.push({ answer, drawn, kept, requests: seen(tab), posts: tab.posts.map(bytesOf), console: tab.console, operations, sentHeaders: tab.sentHeaders });
      await tab.close();
    }
    return people;
  },

  /** One survey asks one of several questions; another asks in every round. */
  async others() {
    const one = await opened(), weekly = await opened();
    await one.goto(page(asked.pages.one));
    await one.evaluate(`document.querySelectorAll('#ask input[value="1"]').forEach((field) => field.click())`);
    await one.click("#ask .send");
    await one.until(RESULT);
    await weekly.goto(page(asked.pages.weekly));
    const little = await opened();
    await little.goto(page(asked.pages.little));
    const text = await little.respond(1);
    return { one: await one.evaluate(DRAW), post: one.posts.map(bytesOf), weekly: await weekly.text(), little: { text, draw: await little.evaluate(DRAW) } };
  },

  /** Versions of a survey: each browser picks one, and keeps it over a reload. Then two tabs of one browser race. */
  async versions() {
    const people = [], arm = "document.querySelector('#ask form strong').innerText";
    for (let n = 0; n < 8; n++) {
      const tab = await opened();
      await tab.goto(page(asked.pages.versions));
      const shown = [await tab.evaluate(arm)];
      await tab.tell("Page.reload");
      await pause(200);
      await tab.until(READY);
      shown.push(await tab.evaluate(arm));
      await tab.respond(n % 2);
      people.push({ shown, post: tab.posts.map(bytesOf), text: await tab.text(), state: await tab.evaluate("history.state?.key ?? null") });
      await tab.close();
    }
    const place = await context(), [one, two] = [await open(place), await open(place)];
    for (const tab of [one, two]) await tab.goto(page(asked.pages.versions));
    const found = await looked(one, "versions");
    await one.respond(1);
    await two.press(1);
    await two.until("document.body.innerText.includes('already answered')");
    return { people, found, posts: [one, two].map((tab) => tab.posts.length) };
  },

  /** By invitation: codes that are good, spent, unknown, damaged, and none; then a reload before the answer. */
  async invitations() {
    const seen = {}, codes = asked.codes;
    const links = { good: codes[0], spent: codes[0], unknown: "a".repeat(26), damaged: "abc", none: "" };
    for (const [name, code] of Object.entries(links)) {
      const tab = await opened();
      await tab.goto(page(asked.pages.invited) + (code && `#${code}`));
      if (name === "good") seen.before = await tab.evaluate("[location.hash, document.body.innerText]");
      const asks = await tab.evaluate("!!document.querySelector('#ask form')");
      if (asks) await tab.respond(1);
      if (asks) await tab.until("!document.body.innerText.includes('being sent')");
      const sent = tab.posts.map(({ headers }) => headers[CODE] ?? "");
      seen[name] = { text: await tab.text(), sent, urls: seenUrls(tab), kept: asks ? await tab.evaluate(KEPT) : null };
    }
    const tab = await opened();
    await tab.goto(`${page(asked.pages.invited)}#${codes[1]}`);
    await tab.tell("Page.reload");
    await pause(300);
    await tab.until(READY);
    await tab.respond(0);
    await tab.until("document.body.innerText.includes('has arrived')");
    const open = await opened();
    await open.goto(`${page(asked.pages.bit)}#${codes[2]}`);
    await open.respond(1);
    return { ...seen, reloaded: tab.posts.length, open: open.posts.map(({ headers }) => headers[CODE] ?? "") };
  },

  /** A wrong code, then another link in the same browser. */
  async corrected() {
    const place = await context(), wrong = await open(place);
    await wrong.goto(`${page(asked.pages.invited)}#${"b".repeat(26)}`);
    await wrong.respond(1);
    await wrong.until("document.body.innerText.includes('does not know')");
    const right = await open(place);
    await right.goto(`${page(asked.pages.invited)}#${asked.codes[3]}`);
    await right.until("document.body.innerText.includes('has arrived')");
    const sentBy = [wrong, right].map((one) => one.posts.map(({ headers }) => headers[CODE]));
    const seen = { bodies: [wrong, right].flatMap((one) => one.posts.map(bytesOf)), sentBy, kept: await right.evaluate(KEPT) };
    await right.tell("Page.reload");
    await pause(300);
    await right.until(RESULT);
    return { ...seen, posts: right.posts.length };
  },

  /** The survey's words and the page's, in the browser's languages, and after the switch. */
  async languages() {
    const seen = {};
    for (const [name, wanted] of Object.entries({ german: ["de-AT", "en"], french: ["fr"], spanish: ["es", "de"] })) {
      const tab = await opened(`Object.defineProperty(Navigator.prototype, "languages", { get: () => ${JSON.stringify(wanted)} })`);
      await tab.goto(page(asked.pages.languages));
      const lang = () => tab.evaluate("[document.documentElement.lang, document.querySelector('#ask h1').lang]");
      seen[name] = [...await lang(), await tab.text()];
      if (name !== "german") continue;
      await tab.click(`#ask input[value="1"]`);
      await tab.evaluate("document.querySelector('nav button[lang=en]').click()");
      seen.switched = [...await lang(), await tab.text(), await tab.evaluate(`document.querySelector('#ask input[value="1"]').checked`)];
    }
    return seen;
  },

  /** Reload, and a second visit in another tab. */
  async again() {
    const place = await context(), tab = await open(place);
    await tab.goto(page(asked.pages.bit));
    const form = await tab.text();
    await tab.respond(1);
    const first = await tab.evaluate(DRAW), posts = tab.posts.length;
    await tab.tell("Page.reload");
    await pause(200);
    await tab.until(RESULT);
    const second = await tab.evaluate(DRAW), other = await open(place);
    await other.goto(page(asked.pages.bit));
    const third = await other.evaluate(DRAW);
    return { page: await other.text(), form, first, second, third, posts, more: tab.posts.length - posts + other.posts.length, found: await looked(other, "answered") };
  },

  /** Visits before and after the survey's keys expire, to another survey of the same origin. */
  async expired() {
    const names = `(async () => Object.keys((await ${KEPT}).records))()`;
    const place = await context(), tab = await open(place);
    await tab.goto(page(asked.pages.bit));
    await tab.respond(1);
    const other = await open(place);
    await other.goto(page(asked.pages.reset));
    const before = await other.evaluate(names);
    const late = await open(place, "Date.now = () => Date.UTC(2150, 0)");
    await late.goto(page(asked.pages.reset));
    return { before, after: await late.evaluate(names) };
  },

  async doubleClick() {
    const tab = await opened();
    await tab.goto(page(asked.pages.bit));
    await tab.evaluate(`(() => {
      document.querySelector('#ask input[value="1"]').click();
      const [form, send] = [document.querySelector("#ask form"), document.querySelector("#ask .send")];
      send.click(); send.click(); form.requestSubmit();
    })()`);
    await tab.until(RESULT);
    const { records } = await tab.evaluate(KEPT);
    return { posts: new Set(tab.posts.map(bytesOf)).size, charges: Object.keys(records).filter((name) => name.startsWith("charge-")).length };
  },

  /** Several times, because the tabs race. */
  async twoTabs() {
    const races = [];
    for (let n = 0; n < 4; n++) {
      const place = await context(), [one, two] = [await open(place), await open(place)];
      await one.goto(page(asked.pages.bit));
      await two.goto(page(asked.pages.bit));
      await Promise.all([one.press(1), two.press(0)]);
      await Promise.all([one, two].map((tab) => tab.until("document.body.innerText.includes('has arrived')")));
      const posts = new Set([...one.posts, ...two.posts].map(bytesOf)).size;
      races.push({ texts: [await one.text(), await two.text()], posts });
      await Promise.all([one.close(), two.close()]);
    }
    return races;
  },

  /** The report waits, and leaves without a second press: on the same page, or at the next visit. */
  async offline() {
    const place = await context(), tab = await open(place);
    await tab.goto(page(asked.pages.bit));
    await tab.online(false);
    const waits = await tab.respond(1), before = tab.posts.length;
    await tab.close();
    const next = await open(place);
    await next.goto(page(asked.pages.bit));
    await next.until("document.body.innerText.includes('has arrived')");
    const later = await opened();
    await later.goto(page(asked.pages.bit));
    await later.online(false);
    await later.respond(1);
    await later.online(true);
    await later.until("document.body.innerText.includes('has arrived')");
    return { waits, before, next: next.posts.length, later: later.posts.length };
  },

  /** The page is left as soon as the report is on disk: permanently, for another visit, and by Back after the draw. */
  async left() {
    const isStored = `(async () => {
      const { records } = await ${KEPT};
      return Object.keys(records).some((name) => name.startsWith("try-")) || ${RESULT};
    })()`;
    const place = await context();
    for (const where of [place, await context()]) {
      const tab = await open(where);
      await tab.goto(page(asked.pages.left));
      await tab.press(1);
      await tab.until(isStored);
      await (where === place ? tab.close() : tab.tell("Page.navigate", { url: "about:blank" }));
    }
    const visit = await open(place);
    await visit.goto(page(asked.pages.left));
    await visit.until("document.body.innerText.includes('has arrived')");
    const back = await opened();
    await back.goto(page(asked.pages.bit));
    await back.respond(1);
    await back.tell("Page.navigate", { url: "about:blank" });
    await back.until("location.href === 'about:blank'");
    await back.evaluate("history.back()");
    await back.until(`location.href.includes("/ask/") && (${RESULT})`);
    return { visit: await visit.text(), back: await back.evaluate(DRAW) };
  },

  /** The page is left before the report has arrived, or before it is sent, and found again by Back. */
  async leftEarly() {
    const seen = {};
    for (const name of [asked.pages.bit, asked.pages.reset]) {
      const tab = await opened();
      await tab.goto(page(name));
      const latency = { offline: false, latency: 2_000, downloadThroughput: -1, uploadThroughput: -1 };
      await tab.tell("Network.emulateNetworkConditions", latency);
      await (name === asked.pages.bit ? tab.press(1) : tab.click('#ask input[value="1"]'));
      await pause(500);
      await tab.tell("Page.navigate", { url: "about:blank" });
      await tab.until("location.href === 'about:blank'");
      await tab.evaluate("setTimeout(() => history.back(), 50)");
      await tab.until(`location.href.includes("/ask/") && ${READY}`);
      await pause(5_000);
      seen[name] = { text: await tab.text(), checked: await tab.evaluate(`document.querySelector('#ask input[value="1"]')?.checked ?? null`) };
    }
    return seen;
  },

  /** The person has withdrawn consent to an app of the same origin, with the client's own storage. */
  async withdrawn() {
    const tab = await opened(), kept = `new Promise((done) => {
      const r = indexedDB.open("deniable", 1);
      r.onupgradeneeded = () => r.result.createObjectStore("records").put({ given: false }, "consent");
      r.onsuccess = () => { const all = r.result.transaction("records").objectStore("records").getAll(); all.onsuccess = () => { r.result.close(); done(all.result); }; };
    })`;
    await tab.goto(page("none"), "document.readyState === 'complete'");
    await tab.evaluate(kept);
    await tab.goto(page(asked.pages.bit));
    await tab.respond(1);
    return tab.evaluate(kept);
  },

  /** The record for the screen cannot be stored. */
  async full() {
    const tab = await opened(`const { put } = IDBObjectStore.prototype;
      IDBObjectStore.prototype.put = function (value, key) {
        if (key.startsWith("ask-")) throw new DOMException("", "QuotaExceededError");
        return put.call(this, value, key);
      };`);
    await tab.goto(page(asked.pages.bit));
    const text = await tab.respond(1);
    await pause(2_000);
    return { text, posts: tab.posts.length };
  },

  async keyboard() {
    const tab = await opened(), reached = [];
    await tab.goto(page(asked.pages.bit));
    for (let n = 0; n < 10; n++) {
      await key(tab, "Tab");
      const at = await tab.evaluate("document.activeElement.className || document.activeElement.type || document.activeElement.localName");
      const ring = await tab.evaluate("getComputedStyle(document.activeElement).outlineStyle");
      reached.push([at, ring]);
      if (at === "radio") await key(tab, " ");
      if (at === "send") break;
    }
    await key(tab, "Enter", "\r");
    await tab.until(RESULT);
    return { reached, focus: await tab.evaluate("document.activeElement.className"), text: await tab.text() };
  },

  /** Every kind of question that a page can ask. */
  async kinds() {
    const place = await context(), tab = await open(place);
    await tab.goto(page(asked.pages.kinds));
    const found = await looked(tab, "form");
    const filledIn = await tab.evaluate("[...document.querySelectorAll('#ask form, #ask input, #ask select')].filter((field) => field.autocomplete !== 'off').length");
    await tab.evaluate(`(() => {
      for (const [name, value] of Object.entries(${JSON.stringify(asked.answers)})) document.querySelector("form").elements.namedItem(name).value = value;
      document.querySelector("#ask .send").click();
    })()`);
    await tab.until(RESULT);
    found.push(...await looked(tab, "result"));
    const text = await tab.text();
    await tab.evaluate("document.querySelectorAll('nav button')[1].click()");
    const more = await open(place);
    await more.goto(page(asked.pages.bit));
    const budget = { text: await more.respond(1), posts: more.posts.length };
    return { found, filledIn, budget, text, german: await tab.text(), lang: await tab.evaluate("document.documentElement.lang"), posts: tab.posts.map(bytesOf), console: tab.console };
  },

  /** Each shows one sentence and sends nothing. */
  async refusals() {
    const scenes = {
      closed: [asked.pages.closed],
      unknown: ["no-such-survey"],
      over: [asked.pages.bit, "Date.now = () => Date.UTC(2150, 0)"],
      early: [asked.pages.bit, "Date.now = () => Date.UTC(2010, 0)"],
      app: [asked.pages.app],
      browser: [asked.pages.bit, `const { importKey } = SubtleCrypto.prototype;
        SubtleCrypto.prototype.importKey = function (form, key, algorithm, ...more) {
          if (algorithm === "Ed25519") return Promise.reject(new DOMException("", "NotSupportedError"));
          return importKey.call(this, form, key, algorithm, ...more);
        }`],
      storage: [asked.pages.bit, `IDBFactory.prototype.open = () => { throw new DOMException("", "InvalidStateError"); }`],
      signal: [asked.pages.bit, `Object.defineProperty(Navigator.prototype, "globalPrivacyControl", { get: () => true })`],
    };
    const seen = {};
    for (const [name, [path, before]] of Object.entries(scenes)) {
      const tab = await opened(before);
      await tab.goto(page(path), "!!document.querySelector('#ask .note')");
      seen[name] = [await tab.evaluate("document.querySelector('.note').innerText"), tab.posts.length, tab.console];
      if (name === "closed") seen.found = await looked(tab, "sentence");
    }
    for (const [name, change] of Object.entries({
      signature: (text) => text.replace(/"signature":"../, '"signature":"00'),
      document: (text) => text.replace("opens", "closes"),
      nothing: () => "<html>",
      unreachable: UNREACHABLE,
    })) {
      const tab = await opened();
      await tab.tell("Fetch.enable", { patterns: [{ urlPattern: "*/ask/*.json" }] });
      tab.replace.set(".json", change);
      await tab.goto(page(asked.pages.bit), "!!document.querySelector('#ask .note[role]')");
      seen[name] = [await tab.evaluate("document.querySelector('.note').innerText"), tab.posts.length, tab.console];
    }
    return seen;
  },

  /** Without JavaScript, and with a changed script. */
  async scripts() {
    const off = await opened();
    await off.tell("Emulation.setScriptExecutionDisabled", { value: true });
    await off.goto(page(asked.pages.bit), "document.body.innerText.includes('JavaScript')");
    const other = await opened();
    await other.tell("Fetch.enable", { patterns: [{ urlPattern: "*/ask/ask.js" }] });
    other.replace.set("ask.js", (text) => `window.ran = true; ${text}`);
    await other.goto(page(asked.pages.bit), "document.readyState === 'complete'");
    await pause(300);
    return { off: await off.text(), ran: await other.evaluate("window.ran === true"), console: other.console };
  },

  /** The same files on another host, and in an element of another page. */
  async elsewhere() {
    const seen = {};
    for (const [name, url] of Object.entries(asked.elsewhere)) { // two of them with a code
      const tab = await opened();
      await tab.goto(url);
      if (name !== "app") {
        await tab.respond(1);
        await tab.until("document.body.innerText.includes('has arrived')");
      }
      seen[name] = { text: await tab.text(), requests: tab.requests.map(({ method, url }) => [method, url]), codes: tab.posts.map(({ headers }) => headers[CODE] ?? ""), console: tab.console };
    }
    return seen;
  },

  /** Processor time of the page's thread until its first paint, and until the form is there. */
  async cost() {
    const tab = await opened();
    await tab.tell("Performance.enable", { timeDomain: "threadTicks" });
    await tab.goto(page(asked.pages.bit));
    const { metrics } = await tab.tell("Performance.getMetrics");
    return Object.fromEntries(metrics.map(({ name, value }) => [name, value]));
  },
};

const found = {};
try {
  for (const name of asked.scenes) found[name] = await SCENES[name]().catch((error) => ({ error: String(error.stack) }));
} finally {
  process.stdout.write(JSON.stringify(found), () => {
    browser.kill("SIGKILL");
    process.exit();
  });
}
