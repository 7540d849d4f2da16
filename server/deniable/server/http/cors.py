"""What pages of other origins may do here (CORS): fetch the list of surveys, and send reports.

Never with credentials: a browser that sends a cookie along shows the page no answer. Everything
else stays closed to other origins, and with it every answer that needs a token.
"""

from __future__ import annotations

from flask import Response, request


def open_to_pages(response: Response) -> Response:
    response.headers["Access-Control-Allow-Origin"] = "*"
    response.headers["Access-Control-Expose-Headers"] = "Retry-After"
    if request.method == "OPTIONS":  # asked before a report is sent, for its Content-Type
        response.headers["Access-Control-Allow-Headers"] = "Content-Type"
        response.headers["Access-Control-Max-Age"] = "86400"
    return response
