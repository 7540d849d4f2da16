"""The aggregation server: takes reports, keeps tallies, answers with estimates and intervals.

Each layer uses only the layers below it:

    cli                     the verbs of the command
    notebook                asking from a notebook
    analysis, relay         results in Python; the relay
    process                 intake and reader as processes: supervisor, addresses, logs
    app                     the reader's Flask application
    alerts, pages           rules and their monitor; HTML for people
    http, archive           intake's front and the reader's API; rounds as Parquet
    intake, results         from an envelope to a tally; from tallies to results
    planning                forecasts before anyone is asked
    surveys, estimation     published surveys; estimates and intervals
    store, parallel         the only part that runs SQL; work on several processors
    disk                    private files, and syncs

A report takes this path: `http.intake_front` (limits), `http.uploads` (body), `intake.admission`
(envelope), `intake.writer` (groups), `intake.commit` (new ones are counted), `store`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deniable.server.notebook import ask

__all__ = ["ask"]


def __getattr__(name: str) -> object:
    """Import `ask` when it is first used, because its libraries load for half a second."""
    if name == "ask":
        from deniable.server.notebook import ask

        return ask
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
