/** Texts of the respondent page's own interface, in each of its languages. The survey's texts are in its document. */

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
  once: "Press once. Your report is stored on this device and then sent. You cannot take it back.",
  not_again: "This browser answers this survey only once.",
  each_round: "This browser answers once in each round.",
  one_of:
    "Your device picks one of these questions by chance, and sends a report of that one only.",
  versions: "This survey compares {count} versions. Your device picked yours by chance:",
  safe_title: "Why nobody can be sure of your answer",
  noise:
    "Your device may change your answer by chance before it sends it, so nobody who sees what it sends can be sure of your answer.",
  little_title: "This survey gives your answer little protection",
  little:
    "Your device may change your answer by chance before it sends it, but seldom enough that someone who sees all that it sends can be almost sure of your answer.",
  belief: "If someone is 10 % sure before, they can be at most {share} % sure after (ε {epsilon}).",
  beyond: "If someone is 10 % sure before, they can be more than 99 % sure after (ε {epsilon}).",
  odds_bit:
    "Of {all} people who say yes, about {keep} send yes and {lie} send no. Of {all} people who say no, about {lie} send yes and {keep} send no.",
  odds_choice:
    "Of {all} people, about {keep} send their own answer. The others send a different one.",
  picture:
    "100 people. Someone suspects {before} of them before seeing what they send, and at most {after} of them afterwards.",
  before: "suspected before: 10 of 100",
  after: "suspected afterwards: at most {share} of 100",
  leaves_title: "Who sees what",
  leaves:
    "Sent unchanged with the report: {names}. The server sees your network address while the report arrives, so it can tell that you took part.",
  the_survey: "the survey",
  the_round: "the round",
  all_rounds:
    "This survey asks up to {rounds} times. That figure is for one time. For all of them:",
  kept:
    "The server deletes the report by {until}. Backups may keep it longer. The totals of all answers are kept.",
  trust:
    "Anyone who can change this page's script could see your answer. So could this browser's extensions, and anyone who sees this screen. The page's files are listed in the server's public register, so that anyone can check them.",
  invitation:
    "The person who gave you this code, working together with the server, may know which report is yours.",
  checked: "Survey {id}, signed by the key {key}.",
  said: "You said {answer}.",
  drew: "Your device drew the random number {drawn} (from 0 to 100).",
  sends: "With your answer, your device sends this for every number from {from} to {to}: {sent}.",
  coin: "Your device tossed a coin for your option: {side}. So it sends: {sent}.",
  heads: "heads",
  tails: "tails",
  not_picked: "Your device picked another question by chance, so nothing about this one was sent.",
  integers: "The exact numbers",
  drawn_integer: "Drawn",
  interval: "Numbers that send the same",
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
  arrived: "Your report has arrived. It counts as one answer, and you cannot take it back.",
  unsure: "Nobody can be sure that it contains your true answer.",
  waiting:
    "Your report is stored on this device. It is sent as soon as this page is open and the device is online.",
  sending: "Your report is stored on this device and is being sent.",
  answered: "This browser has already answered. You cannot take the answer back.",
  unknown_report: "What it sent is no longer stored here.",
  results: "How others have answered so far",
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
  unanswerable: "This survey can be answered only in an app, not on a page. Nothing was sent.",
  budget:
    "This browser has already revealed as much as it may in this quarter (ε 8). Nothing was sent.",
  skipped: "This browser was not drawn for this round. Nothing was sent.",
  no_code: "This survey is by invitation, and this link has no valid code. Nothing was sent.",
  spent:
    "This invitation was already used. Your report was not counted. To send the same report again, open a link with another code in this browser.",
  unknown_code:
    "The server does not know this invitation. Your report was not counted. To send the same report again, open a link with another code in this browser.",
  refused: "The server refused the report ({code}). It was not counted.",
};

/** @type {Texts} */
const GERMAN = {
  loading: "Die Umfrage wird geprüft.",
  asked_by: "Eine Umfrage von {owner}",
  language: "Sprache",
  yes: "Ja",
  no: "Nein",
  range: "von {low} bis {high}",
  bytes: "Nur die ersten {length} Bytes zählen.",
  press: "Senden",
  once:
    "Drücken Sie nur einmal. Ihre Meldung wird auf diesem Gerät gespeichert und dann gesendet. Sie können sie nicht zurücknehmen.",
  not_again: "Dieser Browser beantwortet diese Umfrage nur einmal.",
  each_round: "Dieser Browser antwortet einmal in jeder Runde.",
  one_of: "Ihr Gerät wählt eine dieser Fragen zufällig aus und sendet nur zu dieser eine Meldung.",
  versions:
    "Diese Umfrage vergleicht {count} Varianten. Ihr Gerät hat Ihre Variante zufällig gewählt:",
  safe_title: "Warum sich niemand Ihrer Antwort sicher sein kann",
  noise:
    "Ihr Gerät ändert Ihre Antwort möglicherweise zufällig, bevor es sie sendet. Deshalb kann sich niemand, der das Gesendete sieht, Ihrer Antwort sicher sein.",
  little_title: "Diese Umfrage schützt Ihre Antwort nur wenig",
  little:
    "Ihr Gerät ändert Ihre Antwort möglicherweise zufällig, bevor es sie sendet, aber so selten, dass sich jemand, der alles Gesendete sieht, Ihrer Antwort fast sicher sein kann.",
  belief:
    "Wer sich vorher zu 10 % sicher ist, kann sich danach zu höchstens {share} % sicher sein (ε {epsilon}).",
  beyond:
    "Wer sich vorher zu 10 % sicher ist, kann sich danach zu mehr als 99 % sicher sein (ε {epsilon}).",
  odds_bit:
    "Von {all} Menschen, die mit Ja antworten, senden etwa {keep} Ja und {lie} Nein. Von {all} Menschen, die mit Nein antworten, senden etwa {lie} Ja und {keep} Nein.",
  odds_choice:
    "Von {all} Menschen senden etwa {keep} ihre eigene Antwort, die anderen eine andere.",
  picture:
    "100 Menschen. Jemand verdächtigt {before} von ihnen, bevor ihre Meldungen bekannt sind, und danach höchstens {after} von ihnen.",
  before: "vorher verdächtigt: 10 von 100",
  after: "danach verdächtigt: höchstens {share} von 100",
  leaves_title: "Wer was sieht",
  leaves:
    "Unverändert mit der Meldung gesendet werden: {names}. Der Server sieht Ihre Netzwerkadresse, während die Meldung ankommt, und weiß deshalb, dass Sie teilgenommen haben.",
  the_survey: "die Umfrage",
  the_round: "die Runde",
  all_rounds:
    "Diese Umfrage fragt bis zu {rounds}-mal. Die Angabe oben gilt für ein einzelnes Mal. Für alle zusammen gilt:",
  kept:
    "Der Server löscht die Meldung bis zum {until}. In Sicherungskopien kann sie länger erhalten bleiben. Die Summen aller Antworten bleiben gespeichert.",
  trust:
    "Wer das Skript dieser Seite ändern kann, könnte Ihre Antwort sehen, ebenso die Erweiterungen dieses Browsers und alle, die diesen Bildschirm sehen. Die Dateien der Seite stehen im öffentlichen Register des Servers, damit alle sie prüfen können.",
  invitation:
    "Wer Ihnen diesen Code gegeben hat, könnte zusammen mit dem Server herausfinden, welche Meldung von Ihnen stammt.",
  checked: "Umfrage {id}, signiert mit dem Schlüssel {key}.",
  said: "Ihre Antwort war {answer}.",
  drew: "Ihr Gerät hat die Zufallszahl {drawn} gezogen (von 0 bis 100).",
  sends: "Bei Ihrer Antwort führt jede Zahl von {from} bis {to} zu dieser Meldung: {sent}.",
  coin: "Ihr Gerät hat für Ihre Option eine Münze geworfen: {side}. Deshalb sendet es: {sent}.",
  heads: "Kopf",
  tails: "Zahl",
  not_picked:
    "Ihr Gerät hat zufällig eine andere Frage gewählt. Zu dieser Frage wurde nichts gesendet.",
  integers: "Die genauen Zahlen",
  drawn_integer: "Gezogen",
  interval: "Zahlen mit derselben Meldung",
  of: "von {all}",
  sent_title: "Was gesendet wurde",
  sent: "Gesendet wurde: {sent}.",
  sent_later: "Gesendet wird: {sent}.",
  options: "eine Liste mit {options}",
  nothing: "eine leere Liste",
  pattern: "ein Muster, das zu {options} passt",
  number: "etwa {value}",
  symbol: "Symbol {symbol} von {symbols}",
  text: "ein Code, der zu vielen Texten gehört",
  arrived:
    "Ihre Meldung ist angekommen. Sie zählt als eine Antwort, und Sie können sie nicht zurücknehmen.",
  unsure: "Niemand kann sicher sein, dass sie Ihre wahre Antwort enthält.",
  waiting:
    "Ihre Meldung ist auf diesem Gerät gespeichert. Sie wird gesendet, sobald diese Seite geöffnet und das Gerät online ist.",
  sending: "Ihre Meldung ist auf diesem Gerät gespeichert und wird gesendet.",
  answered:
    "In diesem Browser wurde die Umfrage bereits beantwortet. Sie können die Antwort nicht zurücknehmen.",
  unknown_report: "Was gesendet wurde, ist hier nicht mehr gespeichert.",
  results: "Wie andere bisher geantwortet haben",
  early: "Diese Umfrage beginnt am {day}.",
  over: "Diese Umfrage endete am {day}. Es wurde nichts gesendet.",
  closed: "Diese Umfrage ist geschlossen. Es wurde nichts gesendet.",
  corrupted:
    "Dieser Link ist beschädigt, oder die Umfrage lässt sich nicht prüfen. Es wurde nichts gesendet.",
  unreachable:
    "Die Umfrage konnte nicht geladen werden. Prüfen Sie die Verbindung und laden Sie die Seite neu.",
  browser:
    "Diesem Browser fehlt ein kryptografisches Verfahren, das diese Seite braucht (Ed25519). Hier können Sie nicht sicher antworten. Es wurde nichts gesendet.",
  storage:
    "Dieser Browser speichert auf dieser Seite nichts dauerhaft. Hier können Sie nicht sicher antworten. Es wurde nichts gesendet.",
  signal:
    "Ihr Browser bittet darum, keine Daten zu sammeln (Do Not Track oder Global Privacy Control). Es wurde nichts gesendet.",
  unanswerable:
    "Diese Umfrage lässt sich nur in einer App beantworten, nicht auf einer Seite. Es wurde nichts gesendet.",
  budget:
    "Dieser Browser hat in diesem Quartal schon so viel preisgegeben, wie er darf (ε 8). Es wurde nichts gesendet.",
  skipped: "Dieser Browser wurde für diese Runde nicht ausgelost. Es wurde nichts gesendet.",
  no_code:
    "Diese Umfrage ist nur mit einer Einladung zugänglich, und dieser Link hat keinen gültigen Code. Es wurde nichts gesendet.",
  spent:
    "Diese Einladung wurde bereits benutzt. Ihre Meldung wurde nicht gezählt. Um dieselbe Meldung noch einmal zu senden, öffnen Sie in diesem Browser einen Link mit einem anderen Code.",
  unknown_code:
    "Der Server kennt diese Einladung nicht. Ihre Meldung wurde nicht gezählt. Um dieselbe Meldung noch einmal zu senden, öffnen Sie in diesem Browser einen Link mit einem anderen Code.",
  refused: "Der Server hat die Meldung abgelehnt ({code}). Sie wurde nicht gezählt.",
};

/** @type {Record<string, Texts>} */
export const TEXTS = { en: ENGLISH, de: GERMAN };

/** Return the offered language closest to the first wanted tag that matches any; otherwise the first offered. @param {readonly string[]} wanted @param {string[]} offered */
export function bestTag(wanted, offered) {
  const base = (/** @type {string} */ tag) => tag.toLowerCase().split("-")[0];
  const known = wanted.find((tag) => offered.some((other) => base(other) === base(tag)));
  return known === undefined ? offered[0] : offered[closestLanguage(known, offered)];
}
