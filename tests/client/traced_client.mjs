/**
 * The JavaScript client in a Node process in which a tracer is active:
 *
 *     node traced_client.mjs TRACER URL KEY PACKAGES STATE
 *
 * TRACER is untraced, sentry, datadog or opentelemetry. Within a trace of the host, the app makes
 * requests of its own, and the client fetches the list, answers once and sends the report.
 */

import { createRequire } from "node:module";
import { join } from "node:path";

const [tracer, url, key, packages, state] = process.argv.slice(2);
const load = createRequire(join(packages, "package.json"));

const TRACERS = {
  untraced: () => (work) => work(),

  sentry() {
    const sentry = load("@sentry/node");
    sentry.init({ dsn: "http://key@127.0.0.1:9/1", tracesSampleRate: 1 });
    return (work) => sentry.startSpan({ op: "http.server", name: "GET /health" }, work);
  },

  datadog() {
    const off = { DD_INSTRUMENTATION_TELEMETRY_ENABLED: "false", DD_REMOTE_CONFIGURATION_ENABLED: "false" };
    Object.assign(process.env, off, { DD_TRACE_AGENT_URL: "http://127.0.0.1:9" });
    const datadog = load("dd-trace").init({ startupLogs: false });
    return (work) => datadog.trace("web.request", work);
  },

  opentelemetry() {
    const { trace } = load("@opentelemetry/api");
    const { NodeTracerProvider } = load("@opentelemetry/sdk-trace-node");
    const { registerInstrumentations } = load("@opentelemetry/instrumentation");
    const { HttpInstrumentation } = load("@opentelemetry/instrumentation-http");
    const { UndiciInstrumentation } = load("@opentelemetry/instrumentation-undici");
    new NodeTracerProvider().register();
    registerInstrumentations({ instrumentations: [new HttpInstrumentation(), new UndiciInstrumentation()] });
    return (work) => trace.getTracer("app").startActiveSpan("request", work);
  },
};

const traced = TRACERS[tracer]();
const http = load("node:http");
const { Client, Policy } = await import("../../client/javascript/src/index.js");
const { fileStorage } = await import("../../client/javascript/src/file-storage.js");

async function ownRequests() {
  await (await fetch(`${url}/app`)).text();
  await new Promise((resolve, reject) => {
    http.get(`${url}/app`, (reply) => reply.resume().on("end", resolve)).on("error", reject);
  });
}

await traced(async () => {
  await ownRequests();
  const questions = { crashed: "bit", minutes: "number", browser: "choice" };
  const caps = { maxEpsilonPerSurvey: "8", maxEpsilon: "8" }; // enough for each month of a quarter
  const policy = new Policy({ keys: [key], questions, ...caps });
  const client = new Client(url, { policy, storage: fileStorage(state), sendWithin: 0, allowCi: true });
  await client.consent(true);
  const answers = { crashed: true, minutes: 34, browser: "firefox" };
  const { status, detail } = await client.answer("app-health", answers);
  const left = await client.flush(30);
  if (status !== "queued" || left) throw new Error(`${status}: ${detail}; ${left} left`);
});
process.exit(); // the tracers' timers would continue
