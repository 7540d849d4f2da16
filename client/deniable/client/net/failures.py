"""Why no reply came: a word for the kind of failure, and a sentence that says what to look at.

It is made of error codes, and of nothing that a server or a proxy has said but a status.
"""

from __future__ import annotations

import socket
import ssl

from deniable.client.escaping import escaped
from deniable.client.net.exchange import TooLarge
from deniable.client.net.proxy import ProxyRefused

# OpenSSL's codes for what is wrong with a certificate (X509_V_ERR_...)
NOT_YET_VALID, EXPIRED, OTHER_HOST, OTHER_ADDRESS = 9, 10, 62, 64
UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)


def failure(error: Exception, ca: str | None) -> tuple[str, str]:
    """`ca` is the file of authorities that the app has named, if it has."""
    match error:
        case ssl.SSLCertVerificationError():
            return "certificate", _certificate(error, ca)
        case ssl.SSLError():
            return "tls", f"TLS failed ({escaped(error.reason or 'no reason given', 80)})"
        case socket.gaierror():
            return "dns", f"the name cannot be resolved (DNS: {error.strerror})"
        case ProxyRefused(status=407):
            return "proxy", "the proxy said 407: it wants a name and password, or others"
        case ProxyRefused(status=status):
            return "proxy", f"the proxy said {status}, and made no tunnel"
        case TimeoutError():
            return "timeout", "no whole reply came in time"
        case ConnectionRefusedError():
            return "refused", "the connection was refused: nobody listens there"
        case TooLarge():
            return "too-large", "the reply is too large"
        case OSError(strerror=str(said)):
            return "network", f"the network failed: {said}"
        case _:
            return "not-http", "the reply was cut short, or is not HTTP"


def _certificate(error: ssl.SSLCertVerificationError, ca: str | None) -> str:
    if error.verify_code == EXPIRED:
        return "the server's certificate has expired, or this device's clock is ahead"
    if error.verify_code == NOT_YET_VALID:
        return "the server's certificate is not valid yet, or this device's clock is behind"
    if error.verify_code in (OTHER_HOST, OTHER_ADDRESS):
        return "the server's certificate is for another host"
    if error.verify_code in UNKNOWN_AUTHORITY:
        where = "the usual authorities" if ca is None else f"the authorities in {ca}"
        return f"the server's certificate is from none of {where}"
    return f"the server's certificate is not accepted ({escaped(error.verify_message, 80)})"
