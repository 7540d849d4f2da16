"""`deniable sent`: the reports of this device, as text."""

from argparse import ArgumentParser, Namespace

from deniable.shared.cli.verb import Verb


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--state", required=True, metavar="DIR", help="the app's state folder")
    parser.add_argument("--person", metavar="ID", help="the app's id of a person in that folder")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: Namespace) -> int:
    import json

    from deniable.client.disclosure import read_summary

    summary = read_summary(args.state, args.person)
    # JSON in ASCII, because a history may contain characters that move a cursor
    print(json.dumps(summary.as_json(), indent=1) if args.json else summary.text)
    return 0


SENT = Verb(
    "sent",
    "show the reports of this device, and how much each can reveal",
    arguments,
    run,
    group="app",
    example="deniable sent --state ./device",
)
