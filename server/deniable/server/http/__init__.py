"""The HTTP interface under /v1, and what every view needs."""
