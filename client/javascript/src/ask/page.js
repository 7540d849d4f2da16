/**
 * The respondent page: `/ask/NAME`, the same files on another host, or an element of any page.
 *
 * It verifies the survey, shows the questions, and sends the answers through the client. The person presses once. Before
 * the draw is shown, the charge and the report are on disk and the first attempt to send is over, so leaving the page
 * then changes nothing. Answer and draw are only on the screen, until the page is left. The browser's storage has what
 * the client stores, and a record of what was sent, which is not secret.
 */

import { browserStorage } from "../browser-storage.js";
import { Client, overruled } from "../client.js";
import { beliefAfter, decimal, fill, iso } from "../description.js";
import { ONE } from "../exact.js";
import { hmac } from "../envelope.js";
import { drawnArm } from "../labels.js";
import { isAnswered } from "../ledger.js";
import { expire } from "../person.js";
import { Policy } from "../policy.js";
import { checkSealing } from "../seal.js";
import { hex, parseSurvey, unhex, Unusable, verify } from "../survey.js";
import { drawOf, mechanismOf, number, optionsIn, percent, rollsOf, valueIn } from "./draw.js";
import { fieldset, make, paragraph, picture } from "./elements.js";
import { bestTag, TEXTS } from "./texts.js";

/**
 * @typedef {import("./texts.js").Texts} Texts
 * @typedef {import("./draw.js").Asked} Asked
 * @typedef {{id: string, key: string, document: string, signature: string, state: string, server?: string, results?: string}} Entry
 * @typedef {{payloads: string[]}} Sent what was sent, in hex
 * @typedef {{answers: unknown[], places: any[], payloads: Uint8Array[], rolls: DataView[]}} Drawn only on the screen
 */

const MAX_EPSILON = "8"; // of all surveys of one server in a quarter; a survey may use all of it
const DAY = 86_400_000, SECONDS_TO_SEND = 3, LITTLE = 90;
const CODE = /^#[a-z2-7]{26}$/i;
/** @type {Record<string, keyof Texts>} */
const OUTCOMES = {
  "not-drawn": "skipped",
  "budget-spent": "budget",
  "refused": "corrupted",
  "no-survey": "closed",
  "closed": "closed",
  "no-consent": "signal",
  "unavailable": "storage",
};
/** @type {Record<string, keyof Texts>} */
const REFUSALS = {
  "invitation-missing": "no_code",
  "invitation-unknown": "unknown_code",
  "invitation-spent": "spent",
};

class Page {
  #root;
  #storage = browserStorage("deniable-ask"); // of its own: consent here is no consent to an app of the same origin
  #wanted = navigator.languages;
  /** @type {() => (Node | string)[]} */
  #view = () => [paragraph(this.#texts.loading)];
  #isBusy = false;
  #wasLeft = false; // if true, the draw is not shown, even if the page was left while the report was being sent
  #shown = ""; // the report that is shown
  #isAgain = false;
  #tabs = new BroadcastChannel("deniable-ask");
  #invitation = "";
  /** @type {string | undefined} the version of the survey that this device has picked by chance */
  #arm;
  #armKey = ""; // the key that picked it
  #entry = /** @type {Entry} */ ({});
  #survey = /** @type {ReturnType<typeof parseSurvey>} */ ({});
  /** @type {any} the survey's table in the document */
  #table;
  /** @type {Asked[]} */
  #asked = [];
  #client = /** @type {Client} */ (/** @type {unknown} */ (undefined));
  /** @type {Drawn | undefined} */
  #drawn;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.#root = root;
  }

  /** Load and verify the survey, and show the form, what was sent, or why the survey cannot be answered. */
  async start() {
    addEventListener("pagehide", () => { // a page that is kept in memory must not show the answer again
      [this.#drawn, this.#wasLeft] = [undefined, true];
      const form = this.#root.querySelector("form");
      if (form) HTMLFormElement.prototype.reset.call(form); // a question may be named reset
      if (this.#survey.name && this.#isBusy) this.#render();
    });
    this.#tabs.onmessage = ({ data }) => this.#showAgain(data);
    try {
      const problem = await this.#load();
      if (problem) return this.#say(problem[0], problem[1]);
      await this.#showState();
    } catch (error) {
      this.#say(error instanceof Unusable ? "storage" : "corrupted");
    }
  }

  /** Return the message to show in place of the form, if any. @returns {Promise<[keyof Texts, Record<string, string>?] | undefined>} */
  async #load() {
    const { survey: id = "", key = "" } = this.#root.dataset;
    const address = new URL(`${id}.json`, import.meta.url);
    const reply = await fetch(address, { credentials: "omit" }).catch(() => undefined);
    if (!reply) return ["unreachable"];
    if (!reply.ok) return ["corrupted"];
    const entry = this.#entry = { ...await reply.json(), id, key }; // id and key are those of the page
    if (!globalThis.crypto?.subtle) return ["browser"];
    try {
      await verify(entry, [key]);
    } catch (error) {
      return [error instanceof Unusable ? "browser" : "corrupted"];
    }
    const survey = this.#survey = parseSurvey(entry.document);
    ({ survey: this.#table, question: this.#asked } = JSON.parse(entry.document));
    this.#render();
    if (await checkSealing(survey.sealedTo).then(() => false, () => true)) return ["browser"];
    if (overruled(false)) return ["signal"];
    const policy = this.#policy(), names = survey.questions.map(({ name }) => name);
    if (
      policy.obstacle(survey, names, false) || survey.repeatRounds > 1 ||
      this.#asked.some(({ kind }) => kind === "vector")
    ) {
      return ["unanswerable"];
    }
    const server = entry.server ?? new URL("../", import.meta.url).href;
    this.#client = new Client(server, {
      policy,
      storage: this.#storage,
      settled: (report, { status, json }) => this.#settle(report, status, json),
    });
    addEventListener("online", () => this.#client.flush(SECONDS_TO_SEND));
    return undefined;
  }

  /** Return the limits that this page itself sets; a survey may ask for less. */
  #policy() {
    const { questions, labels } = this.#survey;
    return new Policy({
      keys: [this.#entry.key],
      surveys: [this.#entry.id],
      questions: /** @type {any} */ (Object.fromEntries(
        questions.map(({ name, kind }) => [name, kind]),
      )),
      labels: labels.map(({ name }) => name),
      maxEpsilonPerRound: MAX_EPSILON,
      maxEpsilonPerSurvey: MAX_EPSILON,
      maxEpsilon: MAX_EPSILON,
    });
  }

  /** Show what was sent, or the form. */
  async #showState() {
    const survey = this.#survey, { id, state } = this.#entry, now = Date.now();
    const round = survey.roundAt(now, false) ?? survey.roundOf(survey.closes - DAY);
    const report = `${id}-${round}`;
    if (survey.byInvitation) {
      addEventListener("hashchange", () => CODE.test(location.hash) && location.reload());
    }
    await this.#expire(now);
    if (await isAnswered(this.#storage, id, survey.spanOf(round))) {
      await this.#sendAgain(report);
      return this.#showSent(report, true);
    }
    if (now < survey.opens) return this.#say("early", { day: iso(survey.opens) });
    if (now >= survey.closes) return this.#say("over", { day: iso(survey.closes - DAY) });
    if (state !== "open") return this.#say("closed");
    if (survey.byInvitation && !this.#takeCode()) return this.#say("no_code");
    await this.#pickArm();
    this.#view = () => this.#form();
    this.#render();
  }

  get #arms() {
    return this.#survey.labels.find(({ drawn }) => drawn);
  }

  /** Pick a version of the survey, if it has several. The tab's history entry keeps the key for a reload, until the report is stored. */
  async #pickArm() {
    const label = this.#arms;
    if (!label) return;
    const stored = await this.#storage.get(`key-${this.#entry.id}`);
    const key = stored?.key ?? history.state?.key ??
      hex(crypto.getRandomValues(new Uint8Array(32)));
    this.#armKey = key;
    this.#arm = await drawnArm(label, (text) => hmac(unhex(key), text));
    history.replaceState({ ...history.state, key }, "", location.href);
  }

  /** Store the key that picked the version, and return whether it is the survey's key: another tab may have stored another. */
  async #keepArm() {
    if (!this.#armKey) return true;
    const name = `key-${this.#entry.id}`, until = this.#survey.keyUntil;
    await this.#storage.create(name, { key: this.#armKey, until });
    history.replaceState({ ...history.state, key: undefined }, "", location.href);
    return (await this.#storage.get(name)).key === this.#armKey;
  }

  /** Remove the code from the address. The tab's history entry keeps it for a reload, until the report is stored. */
  #takeCode() {
    this.#invitation = CODE.test(location.hash)
      ? location.hash.slice(1).toLowerCase()
      : history.state?.code ?? "";
    const state = { ...history.state, code: this.#invitation };
    history.replaceState(state, "", location.pathname + location.search);
    return this.#invitation;
  }

  /** Remove what was sent together with the key of its survey. @param {number} now */
  async #expire(now) {
    const storage = this.#storage;
    await expire(storage, now);
    for (const kind of ["ask-", "verdict-", "spare-"]) {
      for (const name of await storage.names(kind)) {
        if (!(await storage.get(`key-${name.split("-")[1]}`))) await storage.remove(name);
      }
    }
  }

  /** Send the same bytes with another code, if the server refused only the code. Nothing is drawn or charged. @param {string} report */
  async #sendAgain(report) {
    const [spare, verdict] = await Promise.all(
      ["spare", "verdict"].map((kind) => this.#storage.get(`${kind}-${report}`)),
    );
    if (!spare || !(verdict?.refused in REFUSALS) || !this.#takeCode()) return;
    await this.#storage.create(`report-${report}`, { ...spare, invitation: this.#invitation });
    await this.#storage.remove(`verdict-${report}`);
    this.#dropCode();
  }

  #dropCode() {
    history.replaceState({ ...history.state, code: "" }, "", location.href);
  }

  /** Submit the answers, once. @param {HTMLFormElement} form */
  async #press(form) {
    if (this.#isBusy) return;
    [this.#isBusy, this.#wasLeft] = [true, false];
    const given = new FormData(form);
    const answers = this.#asked.map((asked) => answerOf(asked, String(given.get(asked.name))));
    this.#view = () => [paragraph(this.#texts.sending, { role: "status" })];
    this.#render();
    try {
      const { id } = this.#entry, named = this.#asked.map(({ name }, n) => [name, answers[n]]);
      const outcome = await navigator.locks.request("deniable-ask", async () => { // two tabs would give consent twice
        if (!(await this.#client.consent(true))) return undefined;
        if (!(await this.#keepArm())) return null;
        return await this.#client.answer(id, Object.fromEntries(named), {
          draws: true,
          shipped: this.#entry,
          invitation: this.#invitation || undefined,
        });
      });
      if (outcome === null) return location.reload();
      if (!outcome) return this.#say("storage");
      const { status, draws } = outcome, report = `${id}-${outcome.round}`;
      if (status !== "queued" && status !== "already-answered") return this.#say(OUTCOMES[status]);
      if (this.#invitation) this.#dropCode();
      if (draws) {
        if (this.#invitation) { // the outbox forgets a report that is refused
          const queued = await this.#storage.get(`report-${report}`).catch(() => undefined);
          const spare = queued && { ...queued, invitation: undefined };
          if (spare) await this.#storage.put(`spare-${report}`, spare).catch(() => {});
        }
        const shown = { payloads: draws.payloads.map(hex) };
        await this.#storage.put(`ask-${report}`, shown).catch(() => {}); // only for display: the report leaves anyway
        await this.#client.flush(SECONDS_TO_SEND);
        const places = await Promise.all(
          this.#survey.questions.map((question, n) => question.place(answers[n])),
        );
        if (!this.#wasLeft) this.#drawn = { answers, places, ...draws };
      }
      await this.#showSent(report, status === "already-answered");
    } catch {
      this.#say("storage");
    }
  }

  /** Store the server's verdict on a report, and show it. @param {string} report @param {number} status @param {any} json */
  async #settle(report, status, json) {
    const refused = json?.refused?.[0]?.code ?? (status < 400 ? "" : String(status));
    await this.#storage.put(`verdict-${report}`, { refused });
    if (!(refused in REFUSALS)) await this.#storage.remove(`spare-${report}`);
    this.#tabs.postMessage(report);
    await this.#showAgain(report);
  }

  /** Update what is shown after the server's verdict has arrived, here or in another tab. @param {string} report */
  async #showAgain(report) {
    if (this.#shown === report) await this.#showSent(report, this.#isAgain);
  }

  /** Show what was sent, from now on. @param {string} report @param {boolean} isAgain whether this browser had answered before */
  async #showSent(report, isAgain) {
    if (isAgain && !this.#shown) this.#client.flush(SECONDS_TO_SEND); // what has waited since an earlier visit
    [this.#shown, this.#isAgain, this.#isBusy] = [report, isAgain, true];
    /** @type {[Sent | undefined, {refused: string} | undefined, object | undefined]} */
    const [sent, verdict, waits] = await Promise.all(
      ["ask", "verdict", "report"].map((kind) => this.#storage.get(`${kind}-${report}`)),
    ).then(([a, b, c]) => [a, b, c]);
    this.#view = () => this.#result(sent, verdict?.refused, Boolean(waits), isAgain);
    this.#render();
    if (this.#drawn) {
      /** @type {HTMLElement | null} */ (this.#root.querySelector(".result"))?.focus();
    }
  }

  // Views

  get #texts() {
    return TEXTS[bestTag(this.#wanted, Object.keys(TEXTS))];
  }

  /** The language of the survey's own texts; empty if the survey names no languages. */
  get #lang() {
    return bestTag(this.#wanted, this.#table?.languages ?? [""]);
  }

  /** Return a text in the language of the page. @param {any} text in one language, or in several by tag */
  #words = (text) =>
    text && typeof text === "object" && !Array.isArray(text) ? text[this.#lang] : text;

  /** Show one sentence, without a form. @param {keyof Texts} name @param {Record<string, string>} [values] */
  #say(name, values = {}) {
    this.#view =
      () => [paragraph(fill(this.#texts[name], values), { role: "status", class: "note" })];
    this.#render();
  }

  #render() {
    const texts = this.#texts, lang = this.#lang, table = this.#table;
    const isPage = this.#root.localName === "main";
    const head = table
      ? [
        make(isPage ? "h1" : "h2", { lang }, this.#words(table.title)),
        paragraph(this.#words(table.purpose), { lang }),
        paragraph(fill(texts.asked_by, { owner: this.#words(table.owner) }), { class: "soft" }),
      ]
      : [...this.#root.querySelectorAll("h1, .shipped")];
    this.#root.lang = bestTag(this.#wanted, Object.keys(TEXTS));
    this.#root.replaceChildren(...(table ? [this.#switch()] : []), ...head, ...this.#view());
    if (isPage) document.documentElement.lang = this.#root.lang;
  }

  /** Return the language switch. */
  #switch() {
    const tags = [...new Set([...this.#table.languages ?? [], ...Object.keys(TEXTS)])];
    const now = bestTag(this.#wanted, tags);
    return make(
      "nav",
      { "aria-label": this.#texts.language },
      ...tags.map((tag) => {
        const name = new Intl.DisplayNames([tag], { type: "language" }).of(tag) ?? tag;
        const button = make("button", {
          type: "button",
          lang: tag,
          "aria-pressed": String(tag === now),
        }, name);
        button.addEventListener("click", () => {
          this.#wanted = [tag];
          const kept = new FormData(this.#root.querySelector("form") ?? undefined);
          this.#render();
          restore(this.#root, kept);
        });
        return button;
      }),
    );
  }

  #form() {
    const texts = this.#texts, survey = this.#survey;
    const fields = this.#asked.map((asked) => {
      const { unit, labels, ...rest } = /** @type {any} */ (asked);
      const named = {
        title: this.#title(asked),
        unit: this.#words(unit) ?? "",
        labels: this.#words(labels) ?? asked.options,
      };
      return fieldset({ ...rest, ...named }, texts, this.#lang);
    });
    const form = /** @type {HTMLFormElement} */ (make(
      "form",
      { autocomplete: "off" },
      ...this.#version(),
      ...(survey.asksOne ? [paragraph(texts.one_of)] : []),
      ...fields,
      make("button", { class: "send" }, texts.press),
      paragraph(
        `${texts.once} ${survey.rounds > 1 ? texts.each_round : texts.not_again}`,
        { class: "soft" },
      ),
    ));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#press(form);
    });
    return [form, ...this.#explanation()];
  }

  /** Return the version of the survey that this device has picked, if there are several. */
  #version() {
    const count = this.#arms?.listed.length;
    if (!count || !this.#arm) return [];
    const arm = make("strong", { lang: this.#lang }, this.#arm);
    return [make("p", {}, `${fill(this.#texts.versions, { count })} `, arm)];
  }

  /** Return the explanation of the noise, and of who sees what. */
  #explanation() {
    const texts = this.#texts, { epsilon, byInvitation } = this.#survey;
    const { rounds, labels, keyUntil } = this.#survey;
    const clear = labels.map(({ name, drawn }) =>
      drawn && this.#arm ? `${name} (${this.#arm})` : name
    );
    const names = [texts.the_survey, texts.the_round, ...clear].join(", ");
    const until = iso(keyUntil + this.#table.retention_days * DAY);
    const all = fill(texts.all_rounds, { rounds }), isLittle = this.#protectsLittle;
    return [
      make("h2", {}, isLittle ? texts.little_title : texts.safe_title),
      paragraph(`${isLittle ? texts.little : texts.noise} ${this.#belief(epsilon)}`),
      picture(Math.min(Number(beliefAfter(epsilon)), 100), texts),
      ...(rounds > 1 ? [paragraph(`${all} ${this.#belief(epsilon * BigInt(rounds))}`)] : []),
      ...this.#asked.flatMap((asked) => this.#odds(asked)),
      make("h2", {}, texts.leaves_title),
      paragraph(fill(texts.leaves, { names })),
      paragraph(fill(texts.kept, { until })),
      paragraph(texts.trust),
      ...(byInvitation ? [paragraph(texts.invitation)] : []),
      paragraph(fill(texts.checked, this.#entry), { class: "soft id" }),
    ];
  }

  /** Whether someone who sees all reports of a device can be almost sure of an answer. */
  get #protectsLittle() {
    const { epsilon, rounds } = this.#survey;
    return Number(beliefAfter(epsilon * BigInt(rounds))) >= LITTLE;
  }

  /** Return how sure someone can become who sees reports of this ε. @param {bigint} epsilon */
  #belief(epsilon) {
    const share = Number(beliefAfter(epsilon));
    const form = share < 100 ? this.#texts.belief : this.#texts.beyond;
    return fill(form, { share, epsilon: decimal(epsilon) });
  }

  /** Return how often the true answer is sent. @param {Asked} asked */
  #odds(asked) {
    const other = { "randomized-response": 1n, "k-randomized-response": undefined };
    if (!(asked.mechanism in other)) return [];
    const options = BigInt(asked.options?.length ?? 2);
    const share = Number(BigInt(asked.integers[0]) * (options - 1n)) / 2 ** 64;
    let all = 100;
    while (all * share < 1) all *= 10;
    const lie = Math.round(all * share), { format } = new Intl.NumberFormat(this.#root.lang);
    const form = asked.kind === "bit" ? this.#texts.odds_bit : this.#texts.odds_choice;
    const numbers = { all: format(all), keep: format(all - lie), lie: format(lie) };
    return [paragraph(fill(form, numbers))];
  }

  /** Return the draw, if it was just made, and what was sent. @param {Sent | undefined} sent @param {string | undefined} refused @param {boolean} waits @param {boolean} isAgain */
  #result(sent, refused, waits, isAgain) {
    const texts = this.#texts, { results } = this.#entry, isQueued = waits && refused === undefined;
    const state = refused
      ? fill(texts[REFUSALS[refused] ?? "refused"], { code: refused })
      : refused === ""
      ? `${texts.arrived}${this.#protectsLittle ? "" : ` ${texts.unsure}`}`
      : waits
      ? texts.waiting
      : texts.answered;
    const address = results && new URL(results, import.meta.url);
    return [
      ...(isAgain ? [paragraph(texts.answered)] : []),
      make(
        "section",
        { class: "result", tabindex: "-1", "aria-labelledby": "ask-sent" },
        make("h2", { id: "ask-sent" }, texts.sent_title),
        ...(sent ? this.#sentences(sent, isQueued) : [paragraph(texts.unknown_report)]),
        paragraph(state, { role: "status" }),
      ),
      ...(address && /^https?:$/.test(address.protocol)
        ? [make("p", {}, make("a", { href: address.href }, texts.results))]
        : []),
      ...this.#explanation(),
    ];
  }

  /** Return what was sent about each question, preceded by its draw if that was just made. @param {Sent} sent @param {boolean} isQueued */
  #sentences({ payloads }, isQueued) {
    const texts = this.#texts, form = isQueued ? texts.sent_later : texts.sent;
    const parts = this.#parts(payloads.map(unhex));
    return this.#asked.flatMap((asked, n) => {
      const payload = parts.get(n), several = this.#asked.length > 1;
      if (!payload && !this.#drawn) return [];
      return [
        ...(several ? [paragraph(this.#title(asked), { class: "title", lang: this.#lang })] : []),
        ...(this.#drawn ? this.#draw(asked, n, payload, this.#drawn) : []),
        ...(payload
          ? [paragraph(fill(form, { sent: this.#sent(asked, payload) }), { class: "sent" })]
          : []),
      ];
    });
  }

  /** Return the parts of a report by the numbers of their questions. @param {Uint8Array[]} payloads */
  #parts(payloads) {
    if (this.#survey.asksOne) return new Map([[payloads[0][0], payloads[1]]]);
    return new Map(payloads.map((payload, n) => [n, payload]));
  }

  /** Return the draw of a question. @param {Asked} asked @param {number} n @param {Uint8Array | undefined} payload @param {Drawn} drawn */
  #draw(asked, n, payload, { answers, places, rolls }) {
    const texts = this.#texts, said = fill(texts.said, { answer: this.#answer(asked, answers[n]) });
    if (!payload) return [paragraph(`${said} ${texts.not_picked}`)];
    const split = rollsOf(rolls, this.#asked, this.#survey.asksOne);
    const draw = drawOf(asked, places[n], split[n], payload), sent = this.#sent(asked, payload);
    if ("coin" in draw) {
      const side = draw.coin ? texts.heads : texts.tails;
      return [paragraph(`${said} ${fill(texts.coin, { side, sent })}`)];
    }
    const [drawn, from, to] = percent(draw.roll, draw.from, draw.to + 1n, 0n, ONE);
    const all = fill(texts.of, { all: String(ONE) });
    const numbers = [
      [texts.drawn_integer, `${draw.roll} ${all}`],
      [texts.interval, `${draw.from} – ${draw.to}`],
    ].flatMap(([term, value]) => [make("dt", {}, term), make("dd", {}, value)]);
    return [
      paragraph(`${said} ${fill(texts.drew, { drawn })} ${fill(texts.sends, { from, to, sent })}`),
      make("details", {}, make("summary", {}, texts.integers), make("dl", {}, ...numbers)),
    ];
  }

  /** @param {Asked} asked */
  #title = (asked) => this.#words(/** @type {any} */ (asked).title) ?? asked.name;

  /** Return an answer as text. @param {Asked} asked @param {unknown} answer */
  #answer(asked, answer) {
    if (asked.kind === "bit") return answer ? this.#texts.yes : this.#texts.no;
    if (asked.kind === "choice") {
      return this.#label(asked, asked.options?.indexOf(String(answer)) ?? 0);
    }
    return `${answer} ${this.#words(/** @type {any} */ (asked).unit) ?? ""}`.trim();
  }

  /** @param {Asked} asked @param {number} n */
  #label = (asked, n) => (this.#words(/** @type {any} */ (asked).labels) ?? asked.options)[n];

  /** Return as text what was sent about a question. @param {Asked} asked @param {Uint8Array} payload */
  #sent(asked, payload) {
    const texts = this.#texts;
    if (asked.kind === "bit") return payload[0] ? texts.yes : texts.no;
    if (asked.kind === "text") return texts.text;
    if (asked.kind === "choice") {
      const labels = optionsIn(asked, payload).map((n) => this.#label(asked, n));
      if (asked.mechanism === "k-randomized-response") return labels[0];
      const form = asked.mechanism === "projective-geometry" ? texts.pattern : texts.options;
      return labels.length ? fill(form, { options: labels.join(", ") }) : texts.nothing;
    }
    const value = valueIn(asked, payload),
      unit = this.#words(/** @type {any} */ (asked).unit) ?? "";
    if (value !== undefined) return fill(texts.number, { value: `${value} ${unit}`.trim() });
    const symbols = Number(mechanismOf(asked).symbols);
    return fill(texts.symbol, { symbol: number(payload) + 1, symbols });
  }
}

/** Read an answer from the form. @param {Asked} asked @param {string} text */
function answerOf({ kind, options = [] }, text) {
  if (kind === "bit") return text === "1";
  if (kind === "choice") return options[Number(text)];
  return kind === "number" ? Number(text) : text;
}

/** Restore the answers in a form after the language has changed. @param {HTMLElement} root @param {FormData} given */
function restore(root, given) {
  for (const [name, value] of given) {
    const fields = /** @type {any} */ (root.querySelector("form")?.elements.namedItem(name));
    if (fields) fields.value = value;
  }
}

const root = document.getElementById("ask");
if (root) await new Page(root).start();
