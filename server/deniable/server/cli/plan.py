"""`deniable plan` and `deniable certify --shuffled`: what to expect of questions and of a shuffle.

`plan` states the margin of error, the number of people needed, and the mechanism.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from deniable.server.cli.store_arguments import add_place, opened
from deniable.shared.cli.verb import Verb, add_json, show
from deniable.shared.errors import WrongUse
from deniable.shared.sealed_envelope import BATCH
from deniable.shared.survey.document import LOOKS
from deniable.shared.survey.kinds import KINDS
from deniable.shared.survey.questions import OVERS

OTHER_MODELS = {
    "shuffled": "margin_shuffled",
    "a trusted server": "margin_of_trusted_server",
    "asked openly": "margin_asked_openly",
}


def _arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Plan a question before you ask anyone: its margin of error for a number of people, or how "
        "many people you need for a given margin of error."
    )
    parser.add_argument("--kind", choices=tuple(KINDS), required=True, help="kind of the question")
    parser.add_argument(
        "--epsilon", metavar="E", default="1", help="above 0, at most 20 (default: %(default)s)"
    )
    fields = (field for kind in KINDS.values() for field in kind.plan_fields)
    for field in {field.name: field for field in fields}.values():
        parser.add_argument(
            f"--{field.name}",
            metavar=field.name[0].upper(),
            type=int if field.is_whole else float,
            default=field.default,
            help=field.help,
        )
    parser.add_argument(
        "--mechanism", metavar="NAME", help="default: the one that a survey would use"
    )
    parser.add_argument("--people", metavar="N", type=int, help="number of people who answer")
    parser.add_argument(
        "--error",
        metavar="X",
        type=float,
        help="margin of error (95 %%): 0.01 is one percentage point of a share; for a number, use "
        "its unit; for a vector, the error of each coordinate",
    )
    parser.add_argument(
        "--effect",
        metavar="D",
        help='difference between two arms that an experiment should detect: "2 points", or a '
        "number in the question's unit",
    )
    parser.add_argument(
        "--share",
        metavar="F",
        help="share of the people who say yes or choose an option, such as 10%%; with --effect, in "
        "the first arm. For a number, the share of people at its high end, with the others at the "
        "low end (default: spread evenly)",
    )
    _add_details(parser)
    add_json(parser)


def _add_details(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--looks",
        choices=LOOKS,
        default=LOOKS[0],
        help="when results are shown: at any time; twice, early and when the round is final; or "
        "only once, with the narrowest margins (default: %(default)s, as in a survey)",
    )
    parser.add_argument(
        "--over",
        choices=OVERS,
        help="part of a round that the question asks about (default: any for yes or no, else last)",
    )
    parser.add_argument(
        "--values",
        metavar="N",
        type=int,
        default=1,
        help="number of equally common label values for which you want separate results",
    )
    parser.add_argument(
        "--crowd",
        metavar="N",
        type=int,
        help="number of people in a batch that a relay shuffles (default: all who answer)",
    )
    parser.add_argument(
        "--bytes", metavar="B", type=int, help="use only mechanisms with reports of at most B bytes"
    )


def _run(args: Namespace) -> int:
    from deniable.server.estimation.statements import final_reading
    from deniable.server.planning.experiment import amount, experiment, experiment_sentence
    from deniable.server.planning.forecast import plan
    from deniable.server.planning.planned_question import (
        asked,
        check_count,
        check_error,
        check_share,
        choose,
    )

    people, error, more = args.people, args.error, dict[str, Any]()
    question = asked(args.kind, args.epsilon, vars(args), args.mechanism)
    if args.effect is not None:
        sure = final_reading(args.looks).confidence
        more["experiment"] = experiment(choose(question, args.bytes), args.effect, args.share, sure)
        people = more["experiment"]["people"] if people is None else people
    if people is None and error is None:
        raise WrongUse(
            "give the number of people, --people N, the margin of error, --error X, or the effect "
            "of an experiment, --effect D"
        )
    forecast = plan(
        question,
        None if people is None else check_count("people", people),
        None if error is None else check_error(error, KINDS[args.kind].error_unit(question)),
        args.bytes,
        check_count("values", args.values),
        None if args.share is None else check_share(args.kind, amount("share", args.share)),
        args.looks,
        None if args.crowd is None else check_count("crowd", args.crowd),
    )
    words = [experiment_sentence(test, question.get("unit", "")) for test in more.values()]
    return show(args, forecast | more, [*_lines(forecast), *words])


def _lines(forecast: dict[str, Any]) -> list[str]:
    from deniable.server.planning.forecast import installs_sentence, sentences
    from deniable.server.results.display import STYLES

    margin = STYLES[forecast["statistic"]].margin
    lines = [
        f"{'mechanism':<24}{'margin':>14}  {'n × variance':>12}  {'bytes':>6}  {'leverage':>9}"
    ]
    lines += [
        f"{row['mechanism']:<24}{margin(row['margin']):>14}  {row['n_variance']:>12.4g}  "
        f"{row['payload_bytes']:>6}  {row['leverage']:>9.2f}"
        for row in [forecast, *forecast["alternatives"]]
    ]
    lines.append("")
    for name, key in OTHER_MODELS.items():
        lines.append(f"{name:<24}{margin(forecast[key]):>14}")
    crowd = forecast["shuffled_people"]
    among = "" if crowd == forecast["people"] else f"among {crowd:,} people: "
    lines[-3] += (
        f"  ({among}ε {forecast['epsilon']}, δ {forecast['shuffled_delta']:.3g}), and "
        f"ε {forecast['shuffled_report_epsilon']} for a report alone"
    )
    return [*lines, "", *sentences(forecast, margin), installs_sentence(forecast)]


PLAN = Verb(
    "plan",
    "plan the margin of error, or the number of people needed",
    _arguments,
    _run,
    group="ask",
    example="deniable plan --kind bit --epsilon 1 --people 20000",
)


# A shuffle's (ε, δ)


def _shuffled_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--shuffled",
        metavar="SURVEY",
        help="instead, compute what a report reveals if a relay shuffles it: a file, in TOML or as "
        "`survey show --json` prints it; or with --data a name, an id or its beginning",
    )
    parser.add_argument(
        "--crowd",
        type=int,
        metavar="N",
        default=BATCH,
        help="with --shuffled: number of people in a batch (default: %(default)s)",
    )
    add_place(parser, required=False)


def _run_shuffled(args: Namespace) -> int:
    from deniable.server.cli.survey import read_survey
    from deniable.server.results.sentences import crowd_facts, crowd_sentences

    if args.data is None:
        survey = read_survey(Path(args.shuffled))
    else:
        with opened(args) as (_, catalogue):
            survey = catalogue.find(args.shuffled).survey
    facts = crowd_facts(survey, args.crowd)
    document = {"name": survey.name, "epsilon": survey.round_epsilon, **facts}
    return show(args, document, crowd_sentences(survey, facts))


SHUFFLED = Verb(
    "certify",
    "with --shuffled, compute the (ε, δ) of a report in a relay's batch",
    _shuffled_arguments,
    _run_shuffled,
    group="research",
    example="deniable certify --shuffled app-health.toml --crowd 1000",
    option="shuffled",
)
