"""A page in words for each kind of problem: what the `type` of a problem document leads to."""

from __future__ import annotations

from typing import NamedTuple

from flask import Blueprint, render_template
from werkzeug.exceptions import NotFound

from deniable.server.http.messages import PROBLEMS
from deniable.server.pages.guards import restricted


class Words(NamedTuple):
    title: str
    happened: str
    cure: str


FINAL = "The same again will be refused again."
LATER = "Send the same again later; Retry-After says when."

# By the code of a problem document, or by its status where it has no code
WORDS = {
    "bad-body": Words(
        "The body cannot be read",
        "It ends too early, does not begin as it must, is empty, or is not JSON as described.",
        f"{FINAL} The detail says where it goes wrong.",
    ),
    "too-many": Words(
        "Too many envelopes",
        "The body holds more envelopes than its sender may put there: one without an app token.",
        "Send several bodies, or send with an app token.",
    ),
    "too-long": Words(
        "Too much JSON",
        "JSON takes many times its length of memory, so less of it may come in a body.",
        "Send the binary form, or several bodies.",
    ),
    "rate-limited": Words(
        "Many reports have come from near this address",
        "So many reports of one survey are taken in an hour from one neighbourhood of addresses.",
        LATER,
    ),
    "invalid-survey": Words(
        "This is not a survey",
        "The document that was to be published breaks a rule for surveys.",
        "The detail names the key and what to do; `deniable survey check` says it before.",
    ),
    "untrusted-survey": Words(
        "The survey is not signed by a key that is known here",
        "A server publishes over HTTP only what is signed by a key that was enrolled in its store.",
        "Publish into its store with that key once; then it is enrolled.",
    ),
    "other-questions": Words(
        "Other questions are open under this name",
        "Apps ask by name, so other questions under a name in use would change what they ask.",
        "Choose another name, or publish with ?replace=true if that is what you want.",
    ),
    "list-full": Words(
        "The public list is full",
        "Every device fetches the list of surveys whole, so it has at most what devices read.",
        "Wait until the grace of others is over, or serve another store.",
    ),
    "400": Words(
        "The request cannot be understood", "Something in it is not as it must be.", FINAL
    ),
    "401": Words(
        "A token is needed",
        "There was none, or it is unknown here, or its time is over.",
        "Send a valid token as Authorization: Bearer; `deniable token create` makes one.",
    ),
    "403": Words(
        "The token is for something else",
        "Each token has one role, and this address is for another one.",
        "Use a token of the role that the detail names.",
    ),
    "404": Words(
        "There is nothing here",
        "No such address, survey or round is known to this server.",
        "/v1/surveys lists the surveys, /v1/openapi.json the addresses.",
    ),
    "405": Words(
        "This address does not take that method",
        "The header Allow says which it takes.",
        "/v1/openapi.json lists them all.",
    ),
    "408": Words(
        "The body came too slowly", "It did not arrive in time; nothing was counted.", LATER
    ),
    "409": Words("That cannot be done as things are", "The detail says what is in the way.", FINAL),
    "413": Words("The body is too long", "Nothing of it was counted.", "Send several bodies."),
    "415": Words(
        "The body is of another type",
        "Its Content-Type is none that is taken here, or it is compressed.",
        "Send one of the types in /v1/openapi.json, as it is.",
    ),
    "429": Words("Too often", "More was sent than is taken now.", LATER),
    "500": Words(
        "The server made a mistake", "It is in the server's log; nothing was counted.", LATER
    ),
    "503": Words(
        "Not now",
        "There is more to do than can be done, or the store is not writable; nothing was counted.",
        LATER,
    ),
}

blueprint = Blueprint("problems", __name__)
blueprint.after_request(restricted)


@blueprint.get(f"{PROBLEMS}<kind>")
def explain(kind: str) -> str:
    """For anyone."""
    if kind not in WORDS:
        raise NotFound
    return render_template("problem.html", words=WORDS[kind])
