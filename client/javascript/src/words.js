/** The code of `describe` and `budget`, which a page loads when it is first used. */

export { budgetOf } from "./budget.js";
export { describe } from "./description.js";
