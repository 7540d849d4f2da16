"""Reports on one survey: to download, or shared at a secret address for a limited time.

A report is one page without scripts: the results that the survey's page shows, with the method.
Intake serves a shared report as stored bytes, and needs no token for it. The reader publishes the
report again every hour, so that it shows the same results as the survey's page.
"""

from __future__ import annotations

import logging
from pathlib import Path

from flask import Response, render_template, request
from flask.typing import ResponseReturnValue

from deniable.server.http.context import Parts, caller, parts
from deniable.server.http.messages import HTML
from deniable.server.pages.access import from_own_form, go, missing, pages, refused
from deniable.server.pages.survey_page import HELPERS, SurveyPage, page_of, read_page
from deniable.server.results.periods import DIVISIONS
from deniable.server.store import PublicPage, PublishedSurvey, Share
from deniable.server.surveys.shared_results import MAX_DAYS, NO_SHARED_PAGE, share_results
from deniable.shared.errors import Refused, StoreUnusable, WrongUse
from deniable.shared.survey.phrases import upper_first

PUBLICATION_SECONDS = 3_600
SHEETS = [Path(__file__).parent / "static" / name for name in ("style.css", "chart.css")]

log = logging.getLogger("deniable.server")

blueprint = pages("shared")
blueprint.register_error_handler(Refused, lambda error: missing(str(error)))


@blueprint.get("/surveys/<identifier>/report.html")
def report(identifier: str) -> ResponseReturnValue:
    """Return the report as a file, which contains its style."""
    page = read_page(identifier)
    style = "\n".join(sheet.read_text("utf-8") for sheet in SHEETS)
    name = f"{page.survey.name}-{parts().clock.now().date()}.html"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(_report(page, style=style), mimetype="text/html", headers=headers)


@blueprint.post("/surveys/<identifier>/shares")
@from_own_form
def share(identifier: str) -> ResponseReturnValue:
    here, form = parts(), request.form
    published = here.catalogue.find(identifier)
    if path := form.get("revoke"):
        here.store.revoke_share(path, caller().name)
        return go(f"/surveys/{published.id}#shares")
    page, division, now = read_page(identifier), form.get("by", ""), here.clock.now()
    days = next((n for n in range(MAX_DAYS + 1) if str(n) == form.get("days")), 0)
    view = division if division in DIVISIONS else "", page.asked, "linked" in form
    try:
        share_results(here.store, page.estimates.published, caller().name, now, days, *view)
    except (Refused, WrongUse) as error:
        return refused(upper_first(str(error)), 400)
    return go(f"/surveys/{published.id}#shares")


class SharePublisher:
    """Publisher that keeps the pages of shares in the store up to date."""

    def __init__(self, here: Parts) -> None:
        self._parts = here
        self._published: dict[str, float] = {}  # when each page was published last, by its path

    def publish(self) -> None:
        """Publish the pages that are new or an hour old, and delete those that have expired."""
        here = self._parts
        shares, now = here.store.shares(), here.clock.now()
        surveys = {published.sequence: published for published in here.catalogue.surveys()}
        if any(one.expires < now.date() for one in shares):
            here.store.purge_shares(now.date())
        self._published = {
            one.path: self._published[one.path] for one in shares if one.path in self._published
        }
        for one in shares:
            due = self._published.get(one.path, 0.0) + PUBLICATION_SECONDS
            is_due = due <= now.timestamp() and one.expires >= now.date()
            if is_due and (published := surveys.get(one.survey)):
                self._published[one.path] = now.timestamp()
                self._publish(one, published)

    def _publish(self, one: Share, published: PublishedSurvey) -> None:
        try:
            page = page_of(published.in_language(one.language), one.division, one.round)
            self._parts.store.set_shared_page(one.path, _report(page, one).encode())
        except (Refused, StoreUnusable) as error:
            log.warning("%s; the shared page stays as it is for an hour", error)


def missing_page() -> dict[str, PublicPage]:
    """Return the page that replaces an expired, revoked or unknown one."""
    return {NO_SHARED_PAGE: PublicPage(HTML, render_template("not_shared.html").encode())}


def _report(page: SurveyPage, shared: Share | None = None, style: str = "") -> str:
    today = parts().clock.now().date()
    facts = {"page": page, "share": shared, "style": style, "today": today, "linked": False}
    return render_template("survey.html", **facts, **HELPERS)
