"""Estimates with both ends of their intervals as Prometheus gauges, for analysts.

Each question has one estimate per label, from the newest round that has any. The interval describes
the population; while the round accepts reports, it holds for repeated scrapes. Texts and vectors
have no gauges, and neither do long lists, so that the number of series stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from deniable.server.http.context import Parts
from deniable.server.results import SurveyEstimates, select_rounds, stored_estimates
from deniable.server.results.survey_estimates import MAX_ROWS, rounds_per_response
from deniable.server.store.records import ID_DIGITS

MAX_LABELS = 50  # of a question
MAX_ESTIMATES = 3_000  # in one response
NEWEST_ROUNDS = 32  # rounds in which an estimate is looked for
ABOUT = ("survey", "id", "question", "label")


class ResultMetrics(Collector):
    """Gauges of all surveys that are open or whose reports are still stored, newest first."""

    def __init__(self, here: Parts) -> None:
        self._here = here

    def text(self) -> bytes:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        estimate = GaugeMetricFamily(
            "deniable_estimate", "Share from 0 to 1, or mean, in the newest round.", labels=ABOUT
        )
        low, high = (
            GaugeMetricFamily(
                f"deniable_estimate_{end}",
                f"{end.capitalize()} end of the estimate's interval for the population "
                "(in follow-up surveys, for the respondents).",
                labels=ABOUT,
            )
            for end in ("low", "high")
        )
        rounds = GaugeMetricFamily(
            "deniable_estimate_round", "Number of the estimate's round.", labels=ABOUT[:3]
        )
        reports = GaugeMetricFamily(
            "deniable_estimate_reports", "Reports that the estimate comes from.", labels=ABOUT[:3]
        )
        left_out = 0
        for estimates in self._estimates():
            named = (estimates.survey.name, estimates.published.id[:ID_DIGITS])
            for question in estimates.survey.questions:
                if question.statistic == "coordinate" or not question.labels:
                    continue
                room = MAX_ESTIMATES - len(estimate.samples)
                if len(question.labels) > min(MAX_LABELS, room):
                    left_out += 1
                elif newest := estimates.newest(question.name, NEWEST_ROUNDS):
                    about, rows = (*named, question.name), newest.questions[question.name]
                    rounds.add_metric(about, newest.round)
                    reports.add_metric(about, rows[0].reports)
                    for row in rows:
                        labels = (*about, row.label)
                        for family, value in (
                            (estimate, row.estimate), (low, row.low), (high, row.high)
                        ):  # fmt: skip
                            if value is not None:
                                family.add_metric(labels, value)
        yield from (estimate, low, high, rounds, reports)
        yield GaugeMetricFamily(
            "deniable_estimates_left_out", "Questions with too many labels.", left_out
        )

    def _estimates(self) -> Iterator[SurveyEstimates]:
        here, now = self._here, self._here.clock.now()
        stored = here.store.unsealed_rounds()
        for published in reversed(here.catalogue.surveys()):
            if published.sequence in stored:
                most = min(NEWEST_ROUNDS, rounds_per_response(published.survey))
                selection = select_rounds(published.survey, now, max_rounds=most)
                yield stored_estimates(
                    here.store, published, now, selection, here.estimates, MAX_ROWS
                )
