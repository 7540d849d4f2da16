"""Flood of requests to one address, over many connections, from a separate process.

`python -m tests.server.flood PORT CONNECTIONS < REQUEST` runs until it is stopped. Each connection
sends its next request after the response.
"""

from __future__ import annotations

import asyncio
import os
import sys


async def flood(port: int, connections: int, request: bytes) -> None:
    async def closed_loop() -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                while True:
                    writer.write(request)
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                    if not length:
                        break  # the response came in parts, so connect again
                    await reader.readexactly(int(length))
            except (OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.01)

    tasks = [asyncio.create_task(closed_loop()) for _ in range(connections)]
    print("flooding", flush=True)
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    os.nice(19)  # a real attacker would not use this machine's processors
    asyncio.run(flood(int(sys.argv[1]), int(sys.argv[2]), sys.stdin.buffer.read()))
