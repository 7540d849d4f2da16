"""Intake: the path of an envelope from its bytes to the store's counts.

`limits` and `admission` accept or refuse an envelope. `tally` and `tally_kernels` validate and
count its payload. `writer` stores uploads in groups with `commit`, and does its `upkeep` between
groups. `recount` compares tallies with envelopes. `status` informs the reader.
"""
