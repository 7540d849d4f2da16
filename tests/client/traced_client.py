"""Client in a process whose HTTP libraries several tracers have patched.

    python -m tests.client.traced_client TRACED URL KEY      TRACED: traced or untraced

It fetches the list, answers once and sends the report, all within a trace of the host.
"""

from __future__ import annotations

import http.client
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from urllib.parse import urlsplit

Trace = AbstractContextManager[object]


def sentry() -> Trace:
    import sentry_sdk

    sentry_sdk.init("http://key@127.0.0.1:9/1", traces_sample_rate=1.0)
    return sentry_sdk.start_transaction(op="http.server", name="GET /health")


def datadog() -> Trace:
    os.environ["DD_TRACE_HTTPLIB_ENABLED"] = "true"
    os.environ["DD_TRACE_ENABLED"] = "true"
    os.environ["DD_TRACE_AGENT_URL"] = "http://127.0.0.1:9"
    os.environ["DD_INSTRUMENTATION_TELEMETRY_ENABLED"] = "false"
    os.environ["DD_REMOTE_CONFIGURATION_ENABLED"] = "false"
    from ddtrace import patch
    from ddtrace.trace import tracer

    patch(httplib=True)
    return tracer.trace("web.request")


def elastic() -> Trace:
    import elasticapm

    address = "http://127.0.0.1:9"
    client = elasticapm.Client(service_name="app", server_url=address, cloud_provider="none")
    elasticapm.instrument()
    client.begin_transaction("request")
    return elasticapm.capture_span("work")


def open_telemetry() -> Trace:
    from opentelemetry import trace
    from opentelemetry.instrumentation.requests import RequestsInstrumentor
    from opentelemetry.instrumentation.urllib3 import URLLib3Instrumentor
    from opentelemetry.sdk.trace import TracerProvider

    trace.set_tracer_provider(TracerProvider())
    RequestsInstrumentor().instrument()
    URLLib3Instrumentor().instrument()
    return trace.get_tracer("app").start_as_current_span("request")


TRACERS: tuple[Callable[[], Trace], ...] = (sentry, datadog, elastic, open_telemetry)


def make_own_requests(url: str) -> None:
    """Make the app's own requests, to which the tracers add their ids."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    connection.request("GET", "/app")
    connection.getresponse().read()
    connection.close()
    import requests

    requests.get(f"{url}/app", timeout=30)


def main(traced: str, url: str, key: str) -> int:
    from deniable.client import Client, Policy
    from tests.client.scripted import ANSWERS

    with ExitStack() as stack:
        for tracer in TRACERS if traced == "traced" else ():
            stack.enter_context(tracer())
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        make_own_requests(url)
        with Client(
            url, policy=Policy([key], per="lifetime"), state=folder, send_within=0.0
        ) as client:
            client.consent(True)
            outcome = client.answer("app-health", **ANSWERS)
            left = client.flush(30.0)
    print(outcome, left, flush=True)
    return int(outcome.status != "queued" or left != 0)


if __name__ == "__main__":
    os._exit(main(*sys.argv[1:]))  # the tracers' threads would continue
