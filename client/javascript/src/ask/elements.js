/** Elements of the respondent page: small builders, the form's fields, and the picture of 100 people. */

import { fill } from "../description.js";

/** @typedef {import("./texts.js").Texts} Texts */
/** @typedef {{name: string, kind: string, title: string, unit: string, options: string[], labels: string[], low: number, high: number, length: number}} Field a question in the words of one language */

const SVG = "http://www.w3.org/2000/svg", MAX_RADIOS = 12;

/**
 * Make an element. Texts are never parsed as HTML.
 * @param {string} name @param {Record<string, string | boolean>} [attributes] @param {...(Node | string)} children
 */
export function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** Return a paragraph. @param {string} text @param {Record<string, string | boolean>} [attributes] */
export const paragraph = (text, attributes) => make("p", attributes, text);

/** Return the fields of a question. The browser neither fills them in nor remembers them. @param {Field} field @param {Texts} texts @param {string} lang of the survey's words */
export function fieldset(field, texts, lang) {
  const legend = make("legend", { lang }, field.title);
  if (field.kind === "bit") {
    return make("fieldset", {}, legend, ...radios(field.name, ["1", "0"], [texts.yes, texts.no]));
  }
  if (field.kind === "choice") {
    const values = field.options.map((_, n) => String(n));
    const fields = values.length > MAX_RADIOS
      ? [select(field.name, values, field.labels, lang)]
      : radios(field.name, values, field.labels, lang);
    return make("fieldset", {}, legend, ...fields);
  }
  const { name, unit, low, high, length } = field, id = `ask-${name}`, hint = `${id}-hint`;
  const usual = { id, name, autocomplete: "off", required: true, "aria-describedby": hint };
  const isNumber = field.kind === "number";
  const range = fill(texts.range, { low, high }) + (unit ? ` (${unit})` : "");
  const text = isNumber ? range : fill(texts.bytes, { length });
  return make(
    "fieldset",
    {},
    legend,
    make("label", { for: id, class: "hidden", lang }, field.title),
    make("input", {
      ...usual,
      ...(isNumber
        ? { type: "number", min: String(low), max: String(high), step: "any", inputmode: "decimal" }
        : { type: "text", spellcheck: "false", autocapitalize: "off" }),
    }),
    paragraph(text, { id: hint, class: "soft" }),
  );
}

/** @param {string} name @param {string[]} values @param {string[]} labels @param {string} [lang] */
const radios = (name, values, labels, lang = "") =>
  values.map((value, n) =>
    make(
      "label",
      { class: "option" },
      make("input", { type: "radio", name, value, required: true, autocomplete: "off" }),
      make("span", lang ? { lang } : {}, labels[n]),
    )
  );

/** @param {string} name @param {string[]} values @param {string[]} labels @param {string} lang */
const select = (name, values, labels, lang) =>
  make(
    "select",
    { name, required: true, autocomplete: "off", "aria-label": name, lang },
    make("option", { value: "" }, "–"),
    ...values.map((value, n) => make("option", { value }, labels[n])),
  );

/** Return the picture: 100 people, 10 of them suspected before, and at most `after` of them afterwards. @param {number} after @param {Texts} texts */
export function picture(after, texts) {
  const drawing = document.createElementNS(SVG, "svg");
  const label = fill(texts.picture, { before: 10, after });
  for (const [key, value] of Object.entries({ viewBox: "0 0 300 60", role: "img" })) {
    drawing.setAttribute(key, value);
  }
  drawing.setAttribute("aria-label", label);
  for (let n = 0; n < 100; n++) {
    const person = document.createElementNS(SVG, "path");
    const x = 15 * (n % 20) + 7.5, y = 12 * Math.floor(n / 20) + 6;
    person.setAttribute(
      "d",
      `M${x - 3.5} ${y + 5}a3.5 4.5 0 0 1 7 0zM${x - 2} ${y - 2.5}a2 2 0 1 0 4 0a2 2 0 1 0-4 0z`,
    );
    person.setAttribute("class", n < 10 ? "before" : n < after ? "after" : "others");
    drawing.append(person);
  }
  const legend = make(
    "figcaption",
    { "aria-hidden": "true" },
    make("span", { class: "key before" }),
    ` ${texts.before} `,
    make("span", { class: "key after" }),
    ` ${fill(texts.after, { share: after })}`,
  );
  return make("figure", {}, drawing, legend);
}
