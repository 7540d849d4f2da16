/** The words of the page that asks, in every language of its own interface. The survey's words are in its document. */

import { closestLanguage } from "../description.js";

/** @typedef {typeof ENGLISH} Texts */

const ENGLISH = {
  loading: "The survey is being checked.",
  asked_by: "Asked by {owner}",
  language: "Language",
  yes: "Yes",
  no: "No",
  range: "from {low} to {high}",
  bytes: "Only the first {length} bytes count.",
  press: "Send",
  once: "Press once. Your report is stored on this device and then sent. Nobody can take it back.",
  one_of: "Your device sends the report of one of these questions, and picks it by chance.",
  safe_title: "Why nobody can be sure of your answer",
  noise:
    "Your device may change your answer by chance before it sends it, so nobody can be sure of your answer.",
  belief: "If someone is 10 % sure before, they can be at most {share} % sure after (ε {epsilon}).",
  beyond: "If someone is 10 % sure before, they can be more than 99 % sure after (ε {epsilon}).",
  odds_bit: "Of 100 people who say yes, about {keep} send yes and {lie} send no.",
  odds_choice: "Of 100 people, about {keep} send their own answer. The others send another one.",
  picture:
    "100 people of whom someone believes that each is 10 % likely to have said it. Before: {before} of 100. After seeing what they send: at most {after} of 100.",
  before: "before: 10",
  after: "after: at most {share}",
  leaves_title: "Who sees what",
  leaves:
    "Sent in clear with it: {names}. The server sees your network address while the report arrives, so it can tell that you took part.",
  the_survey: "the survey",
  the_round: "the round",
  all_rounds: "This survey asks up to {rounds} times. That is for each time. For all of them:",
  kept: "The server deletes the report by {until}. Backups may keep it longer. The counts stay.",
  trust:
    "The party that serves this page's script could see your answer. Its files are listed in the server's public register, so that anyone can check them.",
  invitation:
    "The person who gave you this code, working together with the server, may know which report is yours.",
  checked: "Survey {id}, signed by the key {key}.",
  said: "You said {answer}.",
  drew: "Your device drew {drawn} of 100.",
  sends: "For your answer, {from} to {to} sends: {sent}.",
  coin: "Your device tossed a coin for your option: {side}. So it sends: {sent}.",
  heads: "heads",
  tails: "tails",
  not_picked: "Your device picked another question by chance, so nothing about this one was sent.",
  integers: "The whole numbers behind this",
  drawn_integer: "Drawn",
  interval: "Sends the same",
  of: "of {all}",
  sent_title: "What was sent",
  sent: "This was sent: {sent}.",
  sent_later: "This will be sent: {sent}.",
  options: "a list with {options}",
  nothing: "an empty list",
  pattern: "a pattern that fits {options}",
  number: "about {value}",
  symbol: "symbol {symbol} of {symbols}",
  text: "a code that many texts share",
  arrived:
    "Your report has arrived. It counts as one answer, and nobody can be sure that it is true.",
  waiting:
    "Your report is stored on this device. It leaves as soon as this page is open and the device is online.",
  sending: "Your report is stored on this device and is being sent.",
  answered: "This browser has already answered.",
  unknown_report: "What it sent is no longer known here.",
  results: "How others answer so far",
  early: "This survey opens on {day}.",
  over: "This survey ended on {day}. Nothing was sent.",
  closed: "This survey is closed. Nothing was sent.",
  corrupted: "This link is damaged, or the survey cannot be verified. Nothing was sent.",
  unreachable: "The survey could not be loaded. Check the connection, then load this page again.",
  browser:
    "This browser lacks cryptography that this page needs (Ed25519), so you cannot answer safely here. Nothing was sent.",
  storage:
    "This browser does not store data durably on this page, so you cannot answer safely here. Nothing was sent.",
  signal:
    "Your browser asks sites not to collect data (Do Not Track or Global Privacy Control). Nothing was sent.",
  unanswerable: "Only an app can answer this survey, not a page. Nothing was sent.",
  budget:
    "This browser has already revealed as much as it may in this quarter (ε 8). Nothing was sent.",
  skipped: "By chance, this browser does not answer in this round. Nothing was sent.",
  own_page:
    "This survey is by invitation, which works only on the page of its own server. Nothing was sent.",
  no_code: "This survey is by invitation, and this link has no valid code. Nothing was sent.",
  spent: "This invitation was already used. Your report was not counted.",
  unknown_code: "The server does not know this invitation. Your report was not counted.",
  refused: "The server refused the report ({code}). It was not counted.",
};

/** @type {Texts} */
const GERMAN = {
  loading: "Die Umfrage wird geprüft.",
  asked_by: "Gefragt von {owner}",
  language: "Sprache",
  yes: "Ja",
  no: "Nein",
  range: "von {low} bis {high}",
  bytes: "Nur die ersten {length} Bytes zählen.",
  press: "Senden",
  once:
    "Drücken Sie einmal. Ihre Meldung wird auf diesem Gerät gespeichert und dann gesendet. Niemand kann sie zurücknehmen.",
  one_of: "Ihr Gerät sendet die Meldung zu einer dieser Fragen und wählt sie zufällig aus.",
  safe_title: "Warum niemand Ihre Antwort sicher wissen kann",
  noise:
    "Ihr Gerät ändert Ihre Antwort vielleicht zufällig, bevor es sie sendet. Deshalb kann sich niemand Ihrer Antwort sicher sein.",
  belief:
    "Wer sich vorher zu 10 % sicher ist, kann sich danach zu höchstens {share} % sicher sein (ε {epsilon}).",
  beyond:
    "Wer sich vorher zu 10 % sicher ist, kann sich danach zu mehr als 99 % sicher sein (ε {epsilon}).",
  odds_bit: "Von 100 Menschen, die Ja sagen, senden etwa {keep} Ja und {lie} Nein.",
  odds_choice: "Von 100 Menschen senden etwa {keep} ihre eigene Antwort, die anderen eine andere.",
  picture:
    "100 Menschen, von denen jemand glaubt, dass es jeder mit 10 % Wahrscheinlichkeit gesagt hat. Vorher: {before} von 100. Nachdem zu sehen ist, was sie senden: höchstens {after} von 100.",
  before: "vorher: 10",
  after: "danach: höchstens {share}",
  leaves_title: "Wer was sieht",
  leaves:
    "Offen mitgesendet werden: {names}. Der Server sieht die Netzadresse, während die Meldung ankommt, und damit, dass Sie teilnehmen.",
  the_survey: "die Umfrage",
  the_round: "die Runde",
  all_rounds: "Diese Umfrage fragt bis zu {rounds} Mal. Das gilt für jedes Mal. Für alle zusammen:",
  kept:
    "Der Server löscht die Meldung bis zum {until}. Sicherungskopien können länger bestehen. Die Zählung bleibt.",
  trust:
    "Wer das Skript dieser Seite ausliefert, könnte Ihre Antwort sehen. Seine Dateien stehen im öffentlichen Register des Servers, damit alle sie prüfen können.",
  invitation:
    "Wer Ihnen diesen Code gegeben hat, kann zusammen mit dem Server wissen, welche Meldung von Ihnen ist.",
  checked: "Umfrage {id}, unterschrieben mit dem Schlüssel {key}.",
  said: "Sie sagten {answer}.",
  drew: "Ihr Gerät zog {drawn} von 100.",
  sends: "Bei Ihrer Antwort sendet {from} bis {to}: {sent}.",
  coin: "Ihr Gerät warf für Ihre Option eine Münze: {side}. Also sendet es: {sent}.",
  heads: "Kopf",
  tails: "Zahl",
  not_picked: "Ihr Gerät hat zufällig eine andere Frage gewählt. Hierzu wurde nichts gesendet.",
  integers: "Die ganzen Zahlen dahinter",
  drawn_integer: "Gezogen",
  interval: "Sendet dasselbe",
  of: "von {all}",
  sent_title: "Was gesendet wurde",
  sent: "Das wurde gesendet: {sent}.",
  sent_later: "Das wird gesendet: {sent}.",
  options: "eine Liste mit {options}",
  nothing: "eine leere Liste",
  pattern: "ein Muster, das zu {options} passt",
  number: "etwa {value}",
  symbol: "Zeichen {symbol} von {symbols}",
  text: "ein Code, den viele Texte teilen",
  arrived:
    "Ihre Meldung ist angekommen. Sie zählt als eine Antwort, und niemand kann sicher sein, dass sie stimmt.",
  waiting:
    "Ihre Meldung ist auf diesem Gerät gespeichert. Sie geht ab, sobald diese Seite offen und das Gerät online ist.",
  sending: "Ihre Meldung ist auf diesem Gerät gespeichert und wird gesendet.",
  answered: "Dieser Browser hat schon geantwortet.",
  unknown_report: "Was er gesendet hat, ist hier nicht mehr bekannt.",
  results: "Wie andere bisher antworten",
  early: "Diese Umfrage beginnt am {day}.",
  over: "Diese Umfrage endete am {day}. Nichts wurde gesendet.",
  closed: "Diese Umfrage ist geschlossen. Nichts wurde gesendet.",
  corrupted:
    "Dieser Link ist beschädigt, oder die Umfrage lässt sich nicht prüfen. Nichts wurde gesendet.",
  unreachable:
    "Die Umfrage konnte nicht geladen werden. Prüfen Sie die Verbindung und laden Sie die Seite neu.",
  browser:
    "Diesem Browser fehlt Kryptografie, die diese Seite braucht (Ed25519). Hier können Sie nicht sicher antworten. Nichts wurde gesendet.",
  storage:
    "Dieser Browser speichert auf dieser Seite nichts dauerhaft. Hier können Sie nicht sicher antworten. Nichts wurde gesendet.",
  signal:
    "Ihr Browser bittet darum, keine Daten zu sammeln (Do Not Track oder Global Privacy Control). Nichts wurde gesendet.",
  unanswerable: "Diese Umfrage kann nur eine App beantworten, keine Seite. Nichts wurde gesendet.",
  budget:
    "Dieser Browser hat in diesem Quartal schon so viel verraten, wie er darf (ε 8). Nichts wurde gesendet.",
  skipped: "Dieser Browser antwortet in dieser Runde zufällig nicht. Nichts wurde gesendet.",
  own_page:
    "Für diese Umfrage braucht man eine Einladung. Das geht nur auf der Seite ihres eigenen Servers. Nichts wurde gesendet.",
  no_code:
    "Für diese Umfrage braucht man eine Einladung, und dieser Link hat keinen gültigen Code. Nichts wurde gesendet.",
  spent: "Diese Einladung wurde schon benutzt. Ihre Meldung wurde nicht gezählt.",
  unknown_code: "Der Server kennt diese Einladung nicht. Ihre Meldung wurde nicht gezählt.",
  refused: "Der Server hat die Meldung abgelehnt ({code}). Sie wurde nicht gezählt.",
};

/** @type {Record<string, Texts>} */
export const TEXTS = { en: ENGLISH, de: GERMAN };

/** Return the closest language to the first wanted tag that has one; otherwise the first. @param {readonly string[]} wanted @param {string[]} offered */
export function bestTag(wanted, offered) {
  const base = (/** @type {string} */ tag) => tag.toLowerCase().split("-")[0];
  const known = wanted.find((tag) => offered.some((other) => base(other) === base(tag)));
  return known === undefined ? offered[0] : offered[closestLanguage(known, offered)];
}
