"""Metrics for Prometheus: reports by survey and outcome, the queue, and commit times."""

from __future__ import annotations

import math
import threading
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from deniable.server.intake.writer import Writer
from deniable.server.surveys.clock import Clock

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FRESH_SECONDS = 1.0
COMMIT_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class Metrics:
    """One registry for one application, so that several can live in one process."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._registry, self._clock = CollectorRegistry(), clock
        self._lock = threading.Lock()
        self._rendered, self._rendered_at = b"", -math.inf
        reports = Counter(
            "deniable_reports",
            "Reports since the server began, by survey and by what became of them.",
            ["survey", "outcome"],
            registry=self._registry,
        )
        self.reports = cache(reports.labels)  # the counter of a survey and an outcome
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
        self._commits = commits

    def commit_times(self) -> list[tuple[str, str]]:
        """Return the share of commits that took at most each time, as text; empty without any."""
        samples = [sample for metric in self._commits.collect() for sample in metric.samples]
        within = [(s.labels["le"], s.value) for s in samples if s.name.endswith("_bucket")]
        total = within[-1][1]
        return [
            (f"{value / total:.1%}".replace("%", " %"), f"{1000 * float(limit):g} ms")
            for limit, value in within[:-1]
            if value > 0 and total
        ]

    def render(self) -> bytes:
        """Return the text, at most a second old: it is made once for all who ask meanwhile."""
        with self._lock:
            if self._clock.seconds() - self._rendered_at >= FRESH_SECONDS:
                self._rendered = generate_latest(self._registry)
                self._rendered_at = self._clock.seconds()
            return self._rendered
