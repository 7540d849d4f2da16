"""Contract of verbs, for every entry in the tables of verbs."""

import argparse
import re
import shlex
from collections.abc import Iterator

import pytest

from deniable.shared.cli import command
from deniable.shared.cli.verb import Verb
from tests.command import run

VERBS = [(name, v) for name, verb in command.find_verbs().items() for v in (verb, *verb.also)]
each_verb = pytest.mark.parametrize(("name", "verb"), VERBS, ids=lambda value: (
    value if isinstance(value, str) else value.option or ""))  # fmt: skip


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parser of a verb and those of its actions, such as `keys new`."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in dict.fromkeys(action.choices.values()):
                yield from parsers(sub)


@each_verb
def test_the_command_accepts_the_example_of_every_verb(name: str, verb: Verb) -> None:
    words = shlex.split(verb.example.removeprefix("source <(").removesuffix(")"))
    assert words[:2] == ["deniable", name]
    parser = command.make_parser(command.find_verbs())
    assert parser.parse_args(words[1:]).verb == name


@each_verb
def test_the_help_of_every_verb_has_summary_and_example(name: str, verb: Verb) -> None:
    shown = run("help", name).stdout
    assert shown == run(name, "--help").stdout
    assert "for example:\n" in shown
    assert f"  {verb.example}\n" in shown
    assert " ".join(verb.summary.split()) in " ".join(run("--help").stdout.split())


@each_verb
def test_the_summary_of_every_verb_is_one_plain_line(name: str, verb: Verb) -> None:
    assert re.fullmatch(r"[^\n]{10,110}[^.\n]", verb.summary), verb.summary
    assert verb.name == name


@each_verb
def test_every_option_has_help_and_is_defined_once(name: str, verb: Verb) -> None:
    parser = argparse.ArgumentParser()
    verb.arguments(parser)
    for sub in parsers(parser):
        options = [action for action in sub._actions if action.option_strings]
        assert all(action.help for action in options), [a.option_strings for a in options]
        names = [text for action in options for text in action.option_strings]
        assert len(names) == len(set(names))
        assert not any(text for text in names if text.startswith("--json") and text != "--json")
