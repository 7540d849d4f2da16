"""`deniable reconcile`: make devices send the reports of a round again, after a loss of reports."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from deniable.server.cli.store_arguments import add_place, folder, opened
from deniable.server.cli.survey import KEY_FILE, NO_FOLDER
from deniable.shared.cli.verb import Verb, add_json, show
from deniable.shared.errors import WrongUse

if TYPE_CHECKING:
    from deniable.server.store import PublishedSurvey

WITHOUT_STORE = (
    "to sign an epoch without a store, give the survey's full id, the number of the round, and "
    "--key FILE; to publish one, add --data DIR or --store URL"
)
DONE = (
    "published epoch {epoch} of round {round} of {name}. Each device that sees it sends its report "
    "of that round once more, at a random moment; reports that the server still has count once"
)


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("survey", metavar="SURVEY", help="a name, an id, or its beginning")
    parser.add_argument("round", metavar="ROUND", help="a number, or a day of the round")
    add_place(parser, required=False)
    signed = parser.add_mutually_exclusive_group()
    signed.add_argument(
        "--key", metavar="FILE", help="the signing key (default: the one in the data folder)"
    )
    signed.add_argument(
        "--signature", metavar="HEX", help="a signature made by this command on another machine"
    )
    parser.add_argument(
        "--epoch",
        type=int,
        metavar="N",
        help="1 or 2 (default: one more than the last epoch in the store); give 2 if devices may "
        "have seen an epoch 1 that this store has lost",
    )
    add_json(parser)


def run(args: Namespace) -> int:
    if args.data is None:
        return _sign(args)
    from deniable.server.results.periods import parse_round
    from deniable.server.store import Epoch
    from deniable.server.surveys.catalogue import last_epoch

    with opened(args) as (_, catalogue):
        published = catalogue.find(args.survey)
        number = parse_round(published.survey, args.round)
        epoch = args.epoch or last_epoch(published, number) + 1
        signature = args.signature or _signature(args, published, number, epoch)
        catalogue.reconcile(published, Epoch(number, epoch, signature))
    document = {"survey": published.id, "round": number, "epoch": epoch, "signature": signature}
    done = DONE.format(epoch=epoch, round=number, name=published.name)
    return show(args, document, [done])


def _sign(args: Namespace) -> int:
    """Print a signature, for a store on another machine."""
    from deniable.shared.survey.keys import load_key, sign_epoch

    is_id = re.fullmatch("[0-9a-f]{64}", args.survey, re.ASCII)
    if not (is_id and args.round.isascii() and args.round.isdigit() and args.key):
        raise WrongUse(WITHOUT_STORE)
    number, epoch = int(args.round), args.epoch or 1
    signature = sign_epoch(args.survey, number, epoch, load_key(args.key))
    document = {"survey": args.survey, "round": number, "epoch": epoch, "signature": signature}
    return show(args, document, [signature])


def _signature(args: Namespace, published: PublishedSurvey, number: int, epoch: int) -> str:
    from deniable.shared.survey.keys import load_key, sign_epoch

    file = args.key or str(folder(args.data, NO_FOLDER) / KEY_FILE)
    return sign_epoch(published.id, number, epoch, load_key(file))


RECONCILE = Verb(
    "reconcile",
    "make devices send a round's reports again, after a server has lost some",
    arguments,
    run,
    group="server",
    example="deniable reconcile app-health 2026-12-01 --data ./data",
)
