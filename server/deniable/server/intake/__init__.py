"""Intake: the path of an envelope from its bytes to the store's counts.

`limits` and `admission` accept or refuse an envelope; `tally`, with its `tally_kernels`, validates
and counts the payload. The `writer` stores uploads in groups, using `commit`, and does its `upkeep`
between groups. `recount` compares tallies with envelopes; the reader reads `status`.
"""
