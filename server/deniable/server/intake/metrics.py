"""Intake's figures for Prometheus: reports by survey and outcome, the queue, and commit times."""

from __future__ import annotations

from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from deniable.server.intake.writer import Writer

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
COMMIT_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class Metrics:
    """One registry for one writer, so that several can live in one process."""

    def __init__(self, writer: Writer) -> None:
        self._registry = CollectorRegistry()
        reports = Counter(
            "deniable_reports",
            "Reports since intake began, by survey and outcome.",
            ["survey", "outcome"],
            registry=self._registry,
        )
        self.reports = cache(reports.labels)  # the counter of a survey and an outcome
        waiting = Gauge(
            "deniable_writer_waiting", "Requests that wait for the disk.", registry=self._registry
        )
        waiting.set_function(lambda: writer.waiting)
        self._commits = Histogram(
            "deniable_commit_seconds",
            "Duration of group commits.",
            buckets=COMMIT_BUCKETS,
            registry=self._registry,
        )
        writer.observe_commit = self._commits.observe

    def commit_times(self) -> list[tuple[str, str]]:
        """Return which share of the commits so far took at most how long; empty without any."""
        samples = [sample for metric in self._commits.collect() for sample in metric.samples]
        within = [(s.labels["le"], s.value) for s in samples if s.name.endswith("_bucket")]
        total = within[-1][1]
        return [
            (f"{value / total:.1%}".replace("%", " %"), f"{1000 * float(limit):g} ms")
            for limit, value in within[:-1]
            if value > 0 and total
        ]

    def text(self) -> str:
        return generate_latest(self._registry).decode()
