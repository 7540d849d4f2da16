"""The address to listen at: free, and kept from others while the worker is not there."""

from __future__ import annotations

import socket

from deniable.shared.errors import Refused, WrongUse


def claim_port(host: str, port: int) -> tuple[int, socket.socket]:
    """The port, chosen if it is 0, and what keeps it; close that last.

    The worker listens with SO_REUSEPORT, so a second server would share the port in silence: a
    plain bind finds out whether anybody has it. What is bound and never listens gets no connection.
    """
    with _bound(host, port, shared=False) as probe:
        chosen: int = probe.getsockname()[1]
    return chosen, _bound(host, chosen, shared=True)


def _bound(host: str, port: int, *, shared: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    claim = socket.socket(family, socket.SOCK_STREAM)
    claim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        claim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        claim.bind((host, port))
    except OverflowError:
        claim.close()
        raise WrongUse(f"a port is 0 to 65535, not {port}") from None
    except OSError as error:
        claim.close()
        raise _refusal(host, port, error) from None
    return claim


def _refusal(host: str, port: int, error: OSError) -> Refused | WrongUse:
    import errno

    if error.errno == errno.EADDRINUSE:
        return Refused(f"port {port} of {host} is in use; stop what listens there, or use --port 0")
    return WrongUse(f"cannot listen at {host} port {port}: {error.strerror or error}")
