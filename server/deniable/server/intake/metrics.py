"""Figures for Prometheus: reports by survey and outcome, the queue, and how long commits take."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from deniable.server.intake.writer import Writer

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
COMMIT_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class Metrics:
    """One registry for one application, so that several can live in one process."""

    def __init__(self, writer: Writer) -> None:
        self._registry = CollectorRegistry()
        self.reports = Counter(
            "deniable_reports",
            "Reports since the server began, by survey and by what became of them.",
            ["survey", "outcome"],
            registry=self._registry,
        )
        self.forged = Gauge(
            "deniable_forged_rounds",
            "Rounds whose counts honest reports cannot give, by survey and whether more are taken.",
            ["survey", "state"],
            registry=self._registry,
        )
        waiting = Gauge(
            "deniable_writer_waiting", "Requests that wait for the disk.", registry=self._registry
        )
        waiting.set_function(lambda: writer.waiting)
        commits = Histogram(
            "deniable_commit_seconds",
            "How long group commits take.",
            buckets=COMMIT_BUCKETS,
            registry=self._registry,
        )
        writer.observe_commit = commits.observe

    def render(self) -> bytes:
        return generate_latest(self._registry)
