"""Check a client against the protocol.

python -m tests.conformance [--kinds bit,number] [--features ask,over] [--only CHECK,...] COMMAND...
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator

from tests.conformance.checks import Result, run
from tests.conformance.claims import CHECKS
from tests.conformance.device import FEATURES, KINDS, Claims


def main() -> int:
    options = _options()
    results: dict[str, Result] = {}
    for name in options.only.split(",") if options.only else CHECKS:
        result = results[name] = run(options.command, name, options.claims)
        verdict = "FAILED" if result.fault else "n/a" if result.not_applicable else "ok"
        detail = result.fault or result.not_applicable or ""
        print(f"{verdict:8}{name} [{CHECKS[name].rule}] {detail}".rstrip(), flush=True)
    print(*_summary(options.claims, [*results.values()]), sep="\n")
    return int(any(result.fault for result in results.values()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--kinds",
        help="kinds of questions that the client supports (all); with this option, it supports "
        "only the features that --features names",
    )
    parser.add_argument("--features", help=f"some of {', '.join(FEATURES)} (all)")
    parser.add_argument("--only", default="", help="names of checks, with commas between")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what starts the client")
    options = parser.parse_args()
    kinds = KINDS if options.kinds is None else _listed(options.kinds)
    some = "" if options.kinds is not None else ",".join(FEATURES)
    features = _listed(some if options.features is None else options.features)
    if "bit" not in kinds:
        parser.error("every client supports the kind bit: name it in --kinds")
    if unknown := {*kinds} - {*KINDS} | {*features} - {*FEATURES}:
        parser.error(f"unknown: {', '.join(unknown)}; --kinds and --features list what there is")
    options.claims = Claims(kinds, features)
    return options


def _listed(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def _summary(claims: Claims, results: Collection[Result]) -> Iterator[str]:
    """Yield what was tested, and what was not, one line each."""
    passed = sum(result.passed for result in results)
    failed = sum(result.fault is not None for result in results)
    others = len(results) - passed - failed
    yield f"\n{passed} checks passed, {failed} failed, {others} do not apply"
    yield f"claimed:      {claims}"
    if (lacking := claims.others) != Claims((), ()):
        yield f"not claimed:  {lacking}; surveys that need one of these must be refused"
    if operations := sorted({result.operation for result in results if result.operation}):
        yield f"not offered:  the operations {', '.join(operations)}, so no vectors were compared"


if __name__ == "__main__":
    raise SystemExit(main())
