export { Client, InvalidPerson } from "./client.js";
export { InvalidAnswer } from "./person.js";
export { Policy } from "./policy.js";
