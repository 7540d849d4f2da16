/** An app that compiles under a strict TypeScript, against the installed package. */

import { Client, InvalidAnswer, InvalidPerson, type Outcome, type Person, Policy } from "deniable";
import { browserStorage } from "deniable/browser-storage";
import { fileStorage } from "deniable/file-storage";
import * as words from "deniable/words";

const policy = new Policy({
  keys: ["0".repeat(64)],
  questions: { crashed: "bit", minutes: "number", browser: "choice", model: "text", vector: "vector" },
  maxEpsilonPerRound: "2", maxEpsilonPerSurvey: "2", maxEpsilon: "8", per: "quarter", labels: ["version"],
});
const storage = typeof document === "undefined" ? fileStorage("state") : browserStorage();
const client = new Client("https://stats.example.org", { policy, storage, labels: { version: "3.0" }, words });

export async function answered(person: Person): Promise<string | undefined> {
  if ((await person.consented()) === undefined) await person.consent(true);
  const outcome: Outcome = await person.answer("app-health", { crashed: true, minutes: 34 }, { of: "ended" });
  const budget = await person.budget();
  const next: string | null | undefined = "surveys" in budget ? budget.surveys[0]?.nextAnswer : null;
  return outcome.status === "queued" ? await person.arm("app-health") : next ?? outcome.detail;
}

export async function main(): Promise<number> {
  await client.prefetch();
  const described = await client.describe("app-health", { texts: { why: "Warum: {purpose}" } });
  const titles: string[] = "questions" in described ? described.questions.map(({ title }) => title) : [];
  await answered(client).catch((error: unknown) => error instanceof InvalidAnswer);
  try {
    await answered(client.person(titles[0] ?? "user-17", { labels: { version: "3.1" } }));
  } catch (error) {
    if (!(error instanceof InvalidPerson)) throw error;
  }
  // @ts-expect-error a policy needs keys
  new Policy({ questions: {} });
  // @ts-expect-error consent is a yes or a no
  await client.consent("yes");
  await client.forget();
  await client.close();
  return client.flush();
}
