"""Mechanisms: each is an exact table of integers, with the proof that it keeps its ε.

`epsilon` bounds e^ε by exact arithmetic, `mechanism` is the base class, `families` share a way of
counting, and `mechanisms` lists all. `encodings` put symbols into bytes, `verification`
proves and audits.
"""
