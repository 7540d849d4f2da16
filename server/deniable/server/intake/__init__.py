"""Intake: the path of an envelope from its bytes to the store's counts.

`limits` and `admission` accept or refuse an envelope; `tally`, with its `tally_kernels`, validates
and counts the payload. The `writer` groups uploads and stores each group by `commit`, and does its
`upkeep` between groups. `recount` compares tallies with envelopes; `metrics` watches all of it.
"""
