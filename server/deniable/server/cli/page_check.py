"""`deniable doctor --page`: compare a respondent page with the register of its server."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from deniable.shared.cli.verb import Finding, Verb, add_json, show_findings
from deniable.shared.errors import Refused, WrongUse

MAX_BYTES = 4 * 2**20
TIMEOUT_SECONDS = 10.0
AVOID = "do not answer on this page; ask its host why it differs"
REGISTERED = "all {} files match the register: entry {}"
UNREGISTERED = "the register has no entry for these files; different: {}"
UNNAMED = "this register is the page's own choice; name the author's server with --server URL"
REPLACED = "the files are those of entry {}, and entry {} replaced them"


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--page", metavar="URL", help="compare a respondent page with the register")
    add_json(parser)


def run(args: Namespace) -> int:
    if getattr(args, "data", None) is not None or getattr(args, "state", None) is not None:
        raise WrongUse("check --page, --data and --state in separate commands")
    return show_findings(_findings(args.page, getattr(args, "server", None)), args)


def _findings(address: str, server: str | None) -> Iterator[Finding]:
    from deniable.server.analysis import remote_register
    from deniable.server.pages.respondent.hosted_page import hosted_page
    from deniable.server.store import first_fault

    page = hosted_page(address, _fetch)
    yield Finding("survey", True, f"the page is pinned to survey {page.survey[:12]}")
    is_named, server = server is not None, server or page.server
    if is_named:
        yield _reports(page.server, server)
    entries = remote_register(server)
    fault = first_fault(entries)
    says = fault or f"{server}: {len(entries)} entries"
    yield Finding("register", fault is None, says, AVOID if fault else "")
    own = [entry for entry in entries if entry.survey == page.survey]
    signed = any(entry.event == "published" and entry.key == page.key for entry in own)
    says = "published with the page's key" if signed else "not published with the page's key"
    yield Finding("key", signed, says, "" if signed else AVOID)
    registered = [entry for entry in own if entry.event == "page"]
    same = [entry.number for entry in registered if entry.key == page.digest]
    if not same:
        listed = _fetch(f"{server.rstrip('/')}/ask/{page.survey}.sha256").decode(errors="replace")
        names = (
            ", ".join(page.differences(listed)) or "none, so the server's list is not registered"
        )
        yield Finding("files", False, UNREGISTERED.format(names), AVOID)
    elif same[-1] != registered[-1].number:
        cure = "export the page again, or load it again if a cache kept it"
        yield Finding("files", False, REPLACED.format(same[-1], registered[-1].number), cure)
    else:
        says = REGISTERED.format(len(page.files), same[-1])
        yield Finding("files", is_named, says, "" if is_named else UNNAMED)


def _reports(target: str, server: str) -> Finding:
    """Compare the server that gets the reports with the one that was named."""
    if target.rstrip("/") == server.rstrip("/"):
        return Finding("reports", True, f"the page sends its reports to {server}")
    return Finding(
        "reports", False, f"the page sends its reports to {target}, not to {server}", AVOID
    )


def _fetch(address: str) -> bytes:
    from urllib.error import HTTPError, URLError
    from urllib.request import Request

    from deniable.server.process.server_requests import checked, send

    try:
        with send(Request(checked(address, "--page")), TIMEOUT_SECONDS) as reply:  # noqa: S310 # https, or this machine
            return reply.read(MAX_BYTES)
    except HTTPError as error:
        raise Refused(f"{address} cannot be read: HTTP {error.code}") from None
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise Refused(f"{address} cannot be read: {reason}") from None


PAGE_CHECK = Verb(
    "doctor",
    "compare a respondent page with the register of its server",
    arguments,
    run,
    option="page",
    group="server",
    example="deniable doctor --page https://surveys.example/ask/late --server https://surveys.example",
)
