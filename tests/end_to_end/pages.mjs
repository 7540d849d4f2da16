/* Looks at pages in a real browser, as told on standard input in JSON:

     { browser, flags, axe, pages: [{ name, url, cookies, fill, press, until }],
       views: [{ width, scheme, rules, keyboard }], shots }

   and prints one JSON line for each page and view: what axe-core finds that is serious or critical,
   how far the page is wider than the window, what the keyboard reaches without showing it, and what
   the page itself complains about. It speaks the browser's own protocol, by a pipe of its own. */

import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";

const asked = JSON.parse(readFileSync(0, "utf8"));
const axe = readFileSync(asked.axe, "utf8");
const HEIGHT = 900, MAX_STOPS = 60;

const browser = spawn(asked.browser, [...asked.flags, "--remote-debugging-pipe", "about:blank"], {
  stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
});
const [, , , toBrowser, fromBrowser] = browser.stdio;
const waiting = new Map(), listeners = new Set();
let last = 0, rest = "";
fromBrowser.setEncoding("utf8").on("data", (text) => {
  const parts = (rest + text).split("\0");
  rest = parts.pop();
  for (const part of parts) {
    const message = JSON.parse(part);
    const { resolve, reject } = waiting.get(message.id) ?? {};
    waiting.delete(message.id);
    if (message.error) reject?.(new Error(JSON.stringify(message.error)));
    else if (resolve) resolve(message.result);
    else for (const each of listeners) each(message);
  }
});

const send = (method, params = {}, sessionId) =>
  new Promise((resolve, reject) => {
    waiting.set(++last, { resolve, reject });
    toBrowser.write(JSON.stringify({ id: last, method, params, sessionId }) + "\0");
  });

const { targetId } = await send("Target.createTarget", { url: "about:blank" });
const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
const tell = (method, params) => send(method, params, sessionId);

async function evaluate(expression) {
  const done = await tell("Runtime.evaluate", {
    expression, awaitPromise: true, returnByValue: true,
  });
  if (done.exceptionDetails) throw new Error(done.exceptionDetails.exception.description);
  return done.result.value;
}

const once = (method) =>
  new Promise((resolve) => {
    const hear = (message) => {
      if (message.method !== method || message.sessionId !== sessionId) return;
      listeners.delete(hear);
      resolve(message.params);
    };
    listeners.add(hear);
  });

const FINDINGS = (rules) => `axe.run(document, {
    resultTypes: ["violations"], ${rules ? `runOnly: ${JSON.stringify(rules)}` : ""}
  }).then(({ violations }) => violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => id + ": " + nodes.slice(0, 3).map(({ html }) => html.slice(0, 160)).join(" | ")))`;

/** Focused element: whether its focus is visible, and its text; null at the end of the page. */
const FOCUS = `(() => {
  const at = document.activeElement;
  if (!at || at === document.body || at === document.documentElement) return null;
  const { outlineStyle, outlineWidth } = getComputedStyle(at), box = at.getBoundingClientRect();
  const ring = outlineStyle === "auto" || (outlineStyle !== "none" && parseFloat(outlineWidth) >= 2);
  const shown = ring && box.width > 0 &&
    box.right > 0 && box.left < innerWidth;
  return { shown, what: at.outerHTML.slice(0, 120) };
})()`;

async function tab() {
  const key = { key: "Tab", code: "Tab", windowsVirtualKeyCode: 9 };
  await tell("Input.dispatchKeyEvent", { type: "rawKeyDown", ...key });
  await tell("Input.dispatchKeyEvent", { type: "keyUp", ...key });
}

async function unseenStops() {
  const unseen = [];
  let stops = 0, before = "";
  for (; stops < MAX_STOPS; stops++) {
    await tab();
    const found = await evaluate(FOCUS);
    if (!found) break;
    // Within the parts of a date field, the browser itself shows the focus.
    if (!found.shown && found.what !== before) unseen.push(found.what);
    before = found.what;
  }
  return { unseen, stops };
}

/** Polls until the claim is true, also across reloads of the page. */
async function until(expression) {
  for (let n = 0; n < 300; n++) {
    if (await evaluate(expression).catch(() => false)) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`never so: ${expression}`);
}

async function look(page, view) {
  const narrow = view.width < 500;
  await tell("Emulation.setDeviceMetricsOverride", {
    width: view.width, height: HEIGHT, deviceScaleFactor: 1, mobile: narrow,
  });
  await tell("Emulation.setEmulatedMedia", {
    features: [{ name: "prefers-color-scheme", value: view.scheme }],
  });
  const complaints = [];
  const hear = ({ method, params }) => {
    if (method === "Log.entryAdded" && params.entry.level === "error" && params.entry.source !== "network") {
      complaints.push(params.entry.text);
    }
    if (method === "Runtime.exceptionThrown") complaints.push(params.exceptionDetails.text);
  };
  listeners.add(hear);
  await tell("Network.clearBrowserCookies");
  if (page.cookies?.length) await tell("Network.setCookies", { cookies: page.cookies });
  const loaded = once("Page.loadEventFired");
  await tell("Page.navigate", { url: page.url });
  await loaded;
  for (const [selector, text] of Object.entries(page.fill ?? {})) {
    await evaluate(`document.querySelector(${JSON.stringify(selector)}).value = ${JSON.stringify(text)}`);
  }
  if (page.press) {
    const next = once("Page.loadEventFired");
    await evaluate(`document.querySelector(${JSON.stringify(page.press)}).click()`);
    await next;
  }
  if (page.until) await until(page.until);
  await evaluate(axe + "; 0");
  const found = await evaluate(FINDINGS(view.rules));
  const wider = await evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
  const keyboard = view.keyboard ? await unseenStops() : {};
  listeners.delete(hear);
  if (asked.shots) await shoot(page, view);
  return { page: page.name, width: view.width, scheme: view.scheme, found, wider, complaints, ...keyboard };
}

async function shoot(page, view) {
  const { cssContentSize: { height } } = await tell("Page.getLayoutMetrics");
  const { data } = await tell("Page.captureScreenshot", {
    format: "png", captureBeyondViewport: true,
    clip: { x: 0, y: 0, width: view.width, height: Math.min(height, 4000), scale: 1 },
  });
  mkdirSync(asked.shots, { recursive: true });
  writeFileSync(`${asked.shots}/${page.name}-${view.width}-${view.scheme}.png`, Buffer.from(data, "base64"));
}

try {
  await Promise.all(["Page.enable", "Runtime.enable", "Log.enable", "Network.enable"].map((each) => tell(each)));
  for (const view of asked.views) {
    for (const page of asked.pages) console.log(JSON.stringify(await look(page, view)));
  }
} catch (error) {
  console.error(error);
} finally {
  await Promise.race([send("Browser.close"), new Promise((resolve) => setTimeout(resolve, 3_000))]).catch(() => {});
  browser.kill("SIGKILL");
  process.exit();
}
