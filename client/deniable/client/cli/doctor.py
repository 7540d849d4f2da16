"""`deniable doctor`: what stands between this device and a server, in words, with cures."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from deniable.shared.cli.verb import Finding, Verb, show_findings
from deniable.shared.errors import WrongUse

MAX_TIMEOUT_SECONDS = 3_600


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--server", metavar="URL", help="check the way to a server, and its list")
    parser.add_argument(
        "--key", action="append", metavar="HEX", help="and which surveys this key has signed"
    )
    parser.add_argument("--state", metavar="DIR", help="check an app's state folder")
    parser.add_argument("--person", metavar="ID", help="one of its many people, by the app's id")
    parser.add_argument("--max-epsilon", default="6", metavar="E", help="the app's cap (6)")
    parser.add_argument("--ca", metavar="FILE", help="authorities, instead of the usual ones")
    parser.add_argument("--proxy", metavar="URL", help="an HTTP proxy")
    parser.add_argument("--timeout", type=float, default=10.0, metavar="SECONDS")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(chosen: Namespace) -> int:
    if chosen.server is None and chosen.state is None:
        raise WrongUse("name what to look at: --server URL, --state DIR, or both")
    if not 0 < chosen.timeout <= MAX_TIMEOUT_SECONDS:
        raise WrongUse(
            f"--timeout must be above 0 and at most {MAX_TIMEOUT_SECONDS} seconds, "
            f"got {chosen.timeout}"
        )
    return show_findings(_findings(chosen), chosen)


def _findings(chosen: Namespace) -> Iterator[Finding]:
    """Each option brings its checks."""
    if chosen.server is not None:
        from deniable.client.doctoring.network import look_at_server

        network = {"ca": chosen.ca, "proxy": chosen.proxy, "timeout": chosen.timeout}
        yield from look_at_server(chosen.server, chosen.key or [], **network)
    if chosen.state is not None:
        from deniable.client.doctoring.folder import look_at_folder

        yield from look_at_folder(chosen.state, chosen.max_epsilon, chosen.person)


DOCTOR = Verb(
    "doctor",
    "say what stands between a device and a server",
    arguments,
    run,
    example="deniable doctor --server https://surveys.example --key KEY --state ./device",
)
