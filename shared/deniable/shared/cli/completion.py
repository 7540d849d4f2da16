"""`deniable completion`: what makes a shell complete verbs, actions and options."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Iterator

from deniable.shared.cli.verb import Verb

_BASH = """\
# For bash:  source <(deniable completion bash)       in ~/.bashrc
# For zsh:   source <(deniable completion zsh)        in ~/.zshrc
_deniable() {{
  local word path="" reply=""
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$path $word" in
{steps}
    esac
  done
  case "$path" in
{replies}
  esac
  COMPREPLY=($(compgen -W "$reply" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -o bashdefault -F _deniable deniable
"""
_ZSH = "autoload -U +X compinit && compinit; autoload -U +X bashcompinit && bashcompinit\n"


def script(parser: ArgumentParser, shell: str) -> str:
    """Files are completed where nothing else fits."""
    words = dict(_words(parser, ""))
    steps = "\n".join(f'      "{path}") path="{path}" ;;' for path in words if path)
    replies = "\n".join(
        f'    "{path}") reply="{" ".join(each)}" ;;' for path, each in words.items()
    )
    text = _BASH.format(steps=steps, replies=replies)
    return text if shell == "bash" else _ZSH + text


def _words(parser: ArgumentParser, path: str) -> Iterator[tuple[str, list[str]]]:
    """For each verb and action, as ` survey check`: what may follow it."""
    found: list[str] = []
    for action in parser._actions:
        found += [option for option in action.option_strings if option.startswith("--")]
        if isinstance(action, _SubParsersAction):
            found += action.choices
            for name, below in action.choices.items():
                yield from _words(below, f"{path} {name}")
    yield path, found


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh"))


def _run(chosen: Namespace) -> int:
    from deniable.shared.cli.command import find_verbs, make_parser

    print(script(make_parser(find_verbs()), chosen.shell), end="")
    return 0


COMPLETION = Verb(
    "completion",
    "print what lets a shell complete this command",
    _arguments,
    _run,
    example="source <(deniable completion bash)",
)
