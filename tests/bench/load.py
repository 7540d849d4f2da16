"""Load from many concurrent connections, each with one request at a time, over plain sockets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

Make = Callable[[], bytes]  # returns the next request


def ask(port: int, connections: int, each: int, make: Make) -> None:
    """Send this number of requests over each connection; every response must be 200 or 202."""
    latencies(port, connections, each, make)


def latencies(port: int, connections: int, each: int, make: Make) -> list[float]:
    """Send requests as `ask` does, and return the milliseconds until each response."""
    times = list[float]()
    asyncio.run(_all(port, connections, each, make, times))
    return times


async def _all(port: int, connections: int, each: int, make: Make, times: list[float]) -> None:
    await asyncio.gather(*(_connection(port, each, make, times) for _ in range(connections)))


async def _connection(port: int, each: int, make: Make, times: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(each):
        begin = time.perf_counter()
        writer.write(make())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 202")), head
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length))
        times.append(1e3 * (time.perf_counter() - begin))
    writer.close()


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "\r\n"]).encode() + body
