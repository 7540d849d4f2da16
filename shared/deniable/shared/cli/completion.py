"""`deniable completion`: print a shell script that completes verbs, actions and options."""

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
    """Return the script for a shell. It falls back to completing file names."""
    words = dict(_words(parser, ""))
    steps = "\n".join(f'      "{path}") path="{path}" ;;' for path in words if path)
    replies = "\n".join(
        f'    "{path}") reply="{" ".join(options)}" ;;' for path, options in words.items()
    )
    text = _BASH.format(steps=steps, replies=replies)
    return text if shell == "bash" else _ZSH + text


def _words(parser: ArgumentParser, path: str) -> Iterator[tuple[str, list[str]]]:
    """Return the words that may follow each path of verb and action, such as ` survey check`."""
    options: list[str] = []
    for action in parser._actions:
        options += [option for option in action.option_strings if option.startswith("--")]
        if isinstance(action, _SubParsersAction):
            options += action.choices
            for name, subparser in action.choices.items():
                yield from _words(subparser, f"{path} {name}")
    yield path, options


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh"), help="your shell")


def _run(args: Namespace) -> int:
    from deniable.shared.cli.command import find_verbs, make_parser

    print(script(make_parser(find_verbs()), args.shell), end="")
    return 0


COMPLETION = Verb(
    "completion",
    "print a completion script for bash or zsh",
    _arguments,
    _run,
    group="start",
    example="source <(deniable completion bash)",
)
