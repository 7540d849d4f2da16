"""Every code by which a server refuses: one list for client, server, pages and PROTOCOL.md.

Types, so that no other word can be written where a code is meant.
"""

from typing import Literal

# Of one envelope, in a receipt
EnvelopeCode = Literal["unknown-survey", "closed", "early", "late", "bad-payload", "too-many"]
# Of a whole request, in a problem document
RequestCode = Literal[
    "bad-body",
    "too-many",
    "too-long",
    "rate-limited",
    "invalid-survey",
    "untrusted-survey",
    "other-questions",
    "list-full",
]
