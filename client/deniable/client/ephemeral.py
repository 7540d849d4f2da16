"""Functions that a provider starts and throws away, together with their folders.

A ledger that is lost at the end of a call is a full budget at the next one, so it is said when the
client is made, and not in silence. Whoever mounts a volume that is kept says so by a variable.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

KEPT = "DENIABLE_STATE_IS_KEPT"
# The variables by which each provider says to a function where it runs.
FUNCTIONS = {
    "AWS_LAMBDA_FUNCTION_NAME": "AWS Lambda",
    "FUNCTIONS_WORKER_RUNTIME": "Azure Functions",
    "K_SERVICE": "Google Cloud Run",
    "VERCEL": "Vercel",
}


def thrown_away(environment: Mapping[str, str] = os.environ) -> str | None:
    """Why there can be no state here, and what to do; None where a folder outlives this process."""
    providers = [name for variable, name in FUNCTIONS.items() if environment.get(variable)]
    if not providers or environment.get(KEPT) == "1":
        return None
    return (
        f"state: {providers[0]} throws its folders away with each function, and with them what was "
        "spent; answer where state is kept, on the device or in a web app. If the folder is on a "
        f"volume that is mounted and kept, set {KEPT}=1"
    )
