/** Sentences and limits of a description, written by `python -m tests.reference`. */

export const ENGLISH = {
  why: "Why: {purpose}",
  owner: "Asked by: {owner}",
  when: "When: {every}, from {opens} to {closes}.",
  every_once: "once",
  every_day: "every day",
  every_week: "every week",
  every_month: "every month",
  rounds: "{every} ({rounds} times)",
  questions: "You are asked:",
  one_question: "You are asked one of these questions. This device picks it by chance:",
  question: "- {title}",
  answers: "  Your answer: {asked}.",
  odds: "  From your report, {growth}.",
  odds_of_several: "  From one report, {growth}. From {reports} reports together, {all}.",
  answer_bit: "yes or no",
  answer_number: "a number from {low} to {high}",
  answer_choice: "one of: {options}",
  answer_text: "a short text, of which the first {length} bytes count",
  answer_vector: "{dimension} numbers, a vector of length at most 1",
  unit: "{asked} ({unit})",
  more_options: "{options} and {more} more",
  growth: "a suspicion of 10 % can grow to at most {share} % (ε {epsilon})",
  growth_beyond: "a suspicion of 10 % can grow beyond {share} % (ε {epsilon})",
  over: "  {asked}.",
  over_first: "the first answer",
  over_last: "the last answer",
  over_any: "whether the answer was yes at least once",
  over_all: "whether the answer was yes every time",
  over_round: "{asked} in the {period}",
  over_once: "survey",
  over_day: "day",
  over_week: "week",
  over_month: "month",
  over_among: "{asked}, among installs that run again before {until}",
  over_among_first: "{asked}, among installs that run again before {until} (in the first round)",
  drafts:
    "Until a round ends, the device keeps only a randomized report, which each answer may replace. The reports of the first round are sent between {days}.",
  days_between: "{first} and {last}",
  day_of_month: "{day} {month}",
  months: "January February March April May June July August September October November December",
  noise:
    "This device may change each answer by chance before it is stored or sent. So no one can be sure of your answer.",
  round: "If someone sees all that you send in one round, {growth}.",
  span: "If someone sees all that you send in {rounds} rounds that share a report, {growth}.",
  survey: "If they see all {rounds} rounds, {growth}.",
  kept_report:
    "In every {rounds} rounds, your first answer is changed by chance, once, to make a report. This device keeps that report. It sends it again in the other rounds, at no further ε.",
  late_change:
    "Later answers in these rounds are not reported, so the reports do not reveal whether or when an answer changed. A change shows in the next report at the earliest. It costs its ε there.",
  linked:
    "The reports of these rounds are equal, with up to {bits} bits. Assume that anyone who sees them can link those of one device. They reveal nothing else about your answers.",
  not_linked:
    "The reports of these rounds are equal, and at most {reports} different ones are possible. So many other devices send the same ones.",
  clear: "Sent in clear with each report: {names}.",
  clear_survey: "the survey",
  clear_round: "the round",
  any_text: "a short text",
  address:
    "While a report arrives, the server sees the network address of this device. So it can tell that you take part.",
  sealed:
    "Only the server can open a report. If the app uses a relay, then the relay, not the server, sees the network address. It also learns the survey and round of the report.",
  invitation:
    "Your invitation code is sent with the report. The server stores only that the code was used. The person who gave you this code, working together with the server, may know which report is yours.",
  one_day: "one day",
  days: "{days} days",
  kept:
    "The server deletes a report {days} after its round stops taking reports. The last ones are deleted on {until}. Backups and archives may keep reports longer. The counts stay.",
  stop: "To stop, switch it off in the app. Nothing more is sent, and unsent answers are deleted.",
  forget:
    "The app can also forget you. It then erases its keys, your reports and your choice from this device. It keeps the record of the ε that you have spent.",
  counted: "Counted reports stay counted, because nothing in them shows whose they are.",
  caps: "This survey uses {used} of the {limit} privacy units (ε) this app will ever use.",
  caps_of_rounds:
    "This survey uses {used} of the {limit} privacy units (ε) this app will ever use, {each} in {span}.",
  each_round: "each round",
  each_span: "every {rounds} rounds",
  caps_end: "After {answered} of its {rounds} rounds the app stops answering.",
  caps_renewed:
    "This survey uses at most {used} of the {limit} privacy units (ε) that this app uses in each quarter. The budget renews on the first day of the next quarter.",
  caps_drawn:
    "The app answers at most {answered} of the rounds in a quarter. This device draws them at random in advance. Your answers do not affect the draw.",
  caps_refused:
    "This survey asks for {asked} privacy units (ε) in one round. This app allows only {limit}, so it will not answer.",
};

export const MAX_SHOWN_CHARACTERS = 2000;
export const MAX_SHOWN_OPTIONS = 20;
export const FINGERPRINT_BITS = 9.965784284662087;
export const MAX_SPREAD_DAYS = 7;
