"""Tables of the references: commands, options, addresses, metrics, refusals, states and limits.

`python -m tests.reference` writes them after the public names of a part. Each table is read from
the program itself. Only the meanings of codes are written here; a code without one raises an error.
"""

from __future__ import annotations

import argparse
import inspect
import re
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from deniable.client import environment
from deniable.client.cli import VERBS as CLIENT_VERBS
from deniable.client.state import ledger
from deniable.client.state.postgres_state import KEY_VARIABLE
from deniable.server.cli.verbs import VERBS as SERVER_VERBS
from deniable.server.http import front, openapi
from deniable.server.intake import limits, upkeep
from deniable.server.pages import public_pages
from deniable.server.relay import forwarder
from deniable.server.results import breakdown, survey_estimates
from deniable.server.store.records import State
from deniable.server.surveys import public_list, shared_results
from deniable.shared import envelope
from deniable.shared.cli.command import find_verbs, make_parser
from deniable.shared.cli.verb import Verb
from deniable.shared.cli.verbs import VERBS as SHARED_VERBS
from deniable.shared.errors import EnvelopeCode
from deniable.simulations.engine.study import load, summaries
from deniable.simulations.verbs import VERBS as SIMULATION_VERBS

REFUSALS: Mapping[str, str] = {
    "unknown-survey": "The server has no survey with this id.",
    "closed": "The survey was closed.",
    "early": "The round begins more than an hour from now, by the server's clock.",
    "late": "The round's grace period is over.",
    "bad-payload": "The report does not have the form that the survey defines.",
    "too-many": "The envelope contains more reports than its sender may send.",
    "invitation-missing": "The survey asks by invitation, and the report came without a code.",
    "invitation-unknown": "The server did not issue this code.",
    "invitation-spent": "The code was used for another report.",
}
STATES: Mapping[str, str] = {
    "waiting": "The survey has not begun.",
    "open": "The round is running.",
    "collecting": "The round is over, and its late reports are still accepted.",
    "final": "No further report of the round is accepted.",
}
ROLES: Mapping[str, str] = {
    "no token": "read surveys and the register, and send one report per request",
    "`app`": "also send many reports per request",
    "`analyst`": "read results, counters and the pages",
    "`operator`": "do the same as an analyst, and publish and close surveys",
}
EXITS = {
    0: "success",
    1: "a check found a problem, or a `--fail-if` rule holds",
    2: "wrong use",
    3: "refused by the server or the store",
}
VARIABLES: Mapping[str, str] = {
    "DENIABLE_DATA": "the data folder, or the address of the database, if a command names neither",
    "DENIABLE_TOKEN": "the token for `--server`, for `open_results` and for `deniable relay`",
    "PGPASSWORD": "the password of the database; `~/.pgpass` works, too",
    "NO_COLOR": "set to any value, it switches colours off",
}
CLIENT_VARIABLES: Mapping[tuple[str, ...], str] = {
    ("DO_NOT_TRACK", "DENIABLE_OFF"): "if set, nothing is fetched, charged or sent",
    (
        ledger.SHOW,
    ): "if set, `answer` prints the fields of a report and an example; nothing is sent",
    ledger.ROBOTS: "if set, nothing is fetched, charged or sent, unless `allow_ci` is given",
    tuple(environment.PROVIDERS): "if set, `Client` refuses a state folder: it would be deleted",
    (environment.KEPT,): "`1` if the state folder of a container or a function is kept",
    (KEY_VARIABLE,): "the key that hashes people's ids, if the state is in a database",
}
LIMITS: Sequence[tuple[int, str]] = (
    (envelope.MAX_BODY_BYTES, "bytes of an upload"),
    (envelope.MAX_JSON_BYTES, "bytes of an upload in JSON"),
    (envelope.MAX_ENVELOPES, "envelopes in an upload with an app token; without one, 1"),
    (envelope.MAX_REPORTS, "reports in an envelope with an app token; without one, 1"),
    (int(front.BODY_SECONDS), "seconds until a slow upload is refused"),
    (int(limits.WINDOW_SECONDS), "seconds over which `--limit` counts"),
    (public_list.MAX_PUBLISHED_BYTES, "bytes of a survey document"),
    (public_list.MAX_LIST_BYTES, "bytes of the public list of surveys"),
    (public_list.MAX_LISTED, "surveys in the public list"),
    (survey_estimates.MAX_ROUNDS, "rounds in a response of results"),
    (survey_estimates.MAX_ROWS, "rows in a response of results"),
    (breakdown.MAX_VALUES, "shown values of an open label in a round"),
    (shared_results.MAX_SHARES, "shared pages of a survey"),
    (shared_results.MAX_DAYS, "days for which a shared page can be read"),
    (upkeep.MAX_DOWNTIME.days, "days without a server after which a start needs `--trust-clock`"),
)
PROBLEMS = Path(public_pages.__file__).with_name("problems.toml")


def tables(part: str) -> str:
    """Return the tables of a part as Markdown; empty for a part without any."""
    makers = {"client": _client, "server": _server, "simulations": _simulations}
    made = makers[part]() if part in makers else _commands(SHARED_VERBS)
    return "".join(f"\n{text}" for text in made)


def _commands(verbs: Iterable[Verb]) -> Iterator[str]:
    yield "# The command\n"
    for verb in verbs:
        yield from _verb(verb)


def _client() -> Iterator[str]:
    yield from _commands(CLIENT_VERBS)
    rows = ((f"`{'`, `'.join(names)}`", meaning) for names, meaning in CLIENT_VARIABLES.items())
    yield from _section("Environment", ("variable", "meaning"), rows)


def _server() -> Iterator[str]:
    yield from _commands(SERVER_VERBS)
    yield from _section("Exit codes", ("code", "meaning"), EXITS.items())
    names = ((f"`{name}`", meaning) for name, meaning in VARIABLES.items())
    yield from _section("Environment", ("variable", "meaning"), names)
    yield "# HTTP\n"
    yield from _section("Roles", ("token", "may"), ROLES.items())
    yield from _section("Addresses", ("request", "token", "purpose", "statuses"), _addresses())
    yield from _section("Problem types", ("code", "problem", "what to do"), _problems())
    yield from _section("Refusals of envelopes", ("code", "reason"), _meanings(REFUSALS))
    yield from _section("States of a round", ("state", "meaning"), _meanings(STATES))
    yield from _section("Metrics", ("metric", "type", "meaning"), _metrics())
    yield from _section("Limits", ("maximum", "what"), ((f"{n:,}", what) for n, what in LIMITS))


def _simulations() -> Iterator[str]:
    yield "# The command\n"
    for verb in SIMULATION_VERBS:
        if verb.name != "simulate":
            yield from _verb(verb)
    common = {"--seed N": "root of all randomness", "--json": "print one JSON document"}
    common |= {"--on WHERE": "where cells run: local, pool, dask or dask:ADDRESS"}
    common |= {"--out DIR": "folder for a page, figures, a CSV and run.toml"}
    rows = ((f"`{option}`", meaning) for option, meaning in common.items())
    yield "## Options of every study\n"
    yield _table(("option", "meaning"), rows)
    for name, summary in summaries().items():
        yield f"## `deniable simulate {name}`\n"
        yield f"{_sentence(summary)}\n"
        yield _table(("option", "meaning"), map(_study_option, load(name).options))


def _study_option(option: Any) -> tuple[str, str]:  # Any: an Option, whose default has any type
    shown = option.name if option.positional else f"--{option.name}"
    default = "" if option.default in (None, []) else f" (default {option.default})"
    return f"`{shown} {option.metavar}`", option.help + default


# Commands


def _verb(verb: Verb) -> Iterator[str]:
    yield f"## `deniable {verb.name}`\n"
    yield f"{_sentence(verb.summary)}\n"
    yield from _options(_parser(verb))
    yield "".join(f"    {line}\n" for line in verb.example.splitlines())


def _parser(verb: Verb) -> argparse.ArgumentParser:
    """Return a parser with the arguments of this part only."""
    own = make_parser({verb.name: verb}, find_verbs().keys())
    (commands,) = (action for action in own._actions if isinstance(action, _SUBPARSERS))
    parser: argparse.ArgumentParser = commands.choices[verb.name]
    return parser


_SUBPARSERS = argparse._SubParsersAction


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    rows = []
    for action in parser._actions:
        if isinstance(action, _SUBPARSERS):
            helps = {choice.dest: choice.help for choice in action._choices_actions}
            for name, below in action.choices.items():
                yield f"### `{below.prog}`\n"
                yield f"{_sentence(helps.get(name) or below.description or name)}\n"
                yield from _options(below)
        elif action.help != argparse.SUPPRESS and "--help" not in action.option_strings:
            rows.append((f"`{_shown(action)}`", parser._get_formatter()._expand_help(action)))
    if rows:
        yield _table(("argument", "meaning"), rows)


def _shown(action: argparse.Action) -> str:
    value = action.metavar or (action.choices and "{" + ",".join(map(str, action.choices)) + "}")
    if not action.option_strings:
        return str(value or action.dest)
    shown = "" if action.nargs == 0 else f" {value or action.dest.upper()}"
    return f"{action.option_strings[-1]}{shown}"


# HTTP


def _addresses() -> Iterator[tuple[str, ...]]:
    for path, operations in openapi.document()["paths"].items():
        for method, operation in operations.items():
            if method != "parameters":
                role = re.search(r"role (\w+)", operation.get("description", ""))
                statuses = " ".join(sorted(operation["responses"]))
                token = role[1] if role else "–"
                yield f"`{method.upper()} {path}`", token, operation["summary"], statuses


def _problems() -> Iterator[tuple[str, ...]]:
    for code, problem in tomllib.loads(PROBLEMS.read_text("utf-8")).items():
        yield f"`{code}`", f"{problem['title']}. {problem['happened']}", problem["cure"]


def _meanings(meanings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    codes = get_args(EnvelopeCode) if meanings is REFUSALS else get_args(State)
    assert set(meanings) == set(codes), "each code needs a meaning"
    return ((f"`{code}`", meanings[code]) for code in codes)


def _metrics() -> Iterator[tuple[str, ...]]:
    """Read the metrics of a server in this process, without any survey."""
    from tests.server.world import world

    with tempfile.TemporaryDirectory() as folder, world(Path(folder) / "data") as here:
        bearer = here.bearer("analyst")
        pages = [here.client.get(path, headers=bearer).text for path in METRIC_PATHS]
    for page in pages:
        for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE):
            (meaning,) = re.findall(rf"^# HELP {name} (.+)$", page, re.MULTILINE)
            if not name.endswith("_created"):
                yield f"`{name}`", kind, meaning
    source = inspect.getsource(forwarder)
    for name, (kind, meaning) in RELAY_METRICS.items():
        assert name in source, name
        yield f"`{name}`", kind, meaning


METRIC_PATHS = ("/metrics", "/metrics/results")
RELAY_METRICS = {  # in the file that `deniable relay --metrics` writes
    "deniable_relay_held_envelopes": ("gauge", "Envelopes that the relay holds."),
    "deniable_relay_held_bytes": ("gauge", "Bytes of the envelopes that the relay holds."),
    "deniable_relay_envelopes_total": ("counter", "Envelopes since the start, by outcome."),
}


# Markdown


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def _section(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield f"## {title}\n"
    yield _table(head, rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    cells = ([str(cell).replace("|", "\\|") for cell in row] for row in lines)
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)
