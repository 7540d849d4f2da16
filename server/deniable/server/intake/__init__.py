"""Envelopes on their way to the disk: admitted, counted, committed in groups, purged in time."""
