"""`deniable sent`: what left this device, in words."""

from argparse import ArgumentParser, Namespace

from deniable.shared.cli.verb import Verb


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--state", required=True, metavar="DIR", help="the app's state folder")
    parser.add_argument("--person", metavar="ID", help="one of many people, by the app's id")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(chosen: Namespace) -> int:
    import json

    from deniable.client.sent import as_json, as_text, read_summary

    summary = read_summary(chosen.state, chosen.person)
    if chosen.json:
        print(json.dumps(as_json(summary), indent=1))
    else:
        print("\n".join(as_text(summary)))
    return 0


SENT = Verb(
    "sent",
    "show what left this device, and what it can tell",
    arguments,
    run,
    example="deniable sent --state ./device",
)
