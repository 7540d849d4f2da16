export { Client, InvalidAnswer } from "./client.js";
export { Policy } from "./policy.js";
