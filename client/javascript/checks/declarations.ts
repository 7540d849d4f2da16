/** Holds the declarations to the implementation: `./run check` fails where one has more than the other, or another type. */

import * as browser from "../src/browser-storage.js";
import * as file from "../src/file-storage.js";
import * as index from "../src/index.js";
import * as words from "../src/words.js";

type Declarations = typeof import("../src/index.d.ts");
type Client = InstanceType<typeof index.Client>;
type DeclaredClient = InstanceType<Declarations["Client"]>;
type Person = ReturnType<Client["person"]>;
type DeclaredPerson = import("../src/index.d.ts").Person;
type Result<C extends Client | DeclaredClient, Method extends "budget" | "describe"> = Awaited<
  ReturnType<C[Method]>
>;
type Same<One, Other> = [One, Other] extends [Other, One] ? true : false;

index satisfies Declarations;
browser satisfies typeof import("../src/browser-storage.d.ts");
file satisfies typeof import("../src/file-storage.d.ts");
words satisfies typeof import("../src/words.d.ts");
true satisfies Same<keyof typeof words, keyof typeof import("../src/words.d.ts")>;
true satisfies Same<keyof typeof index, keyof Declarations>;
true satisfies Same<keyof Client, keyof DeclaredClient>;
true satisfies Same<keyof Person, keyof DeclaredPerson>;
true satisfies Same<Result<Client, "budget">, Result<DeclaredClient, "budget">>;
true satisfies Same<Result<Client, "describe">, Result<DeclaredClient, "describe">>;
