/** @typedef {"queued" | "already-answered" | "not-drawn" | "budget-spent" | "refused" | "no-survey" | "closed" | "no-consent" | "unavailable"} Status */

export const KINDS = ["bit", "choice", "number", "text", "vector"];
/** @type {{maxEpsilonPerRound: string, maxEpsilonPerSurvey: string, maxEpsilon: string, per: "quarter" | "lifetime"}} */
export const DEFAULTS = {
  maxEpsilonPerRound: "2",
  maxEpsilonPerSurvey: "2",
  maxEpsilon: "8",
  per: "quarter",
};
export const PER = ["quarter", "lifetime"];
export const ROBOTS = [
  "CI",
  "CONTINUOUS_INTEGRATION",
  "GITHUB_ACTIONS",
  "GITLAB_CI",
  "BUILDKITE",
  "JENKINS_URL",
  "TF_BUILD",
  "TEAMCITY_VERSION",
  "CIRCLECI",
  "TRAVIS",
  "APPVEYOR",
  "BITBUCKET_BUILD_NUMBER",
  "CODEBUILD_BUILD_ID",
  "DRONE",
];
