"""Mechanisms of a trusted server, with which the studies compare mechanisms on devices.

They see true answers, as nothing else in this project does, so they belong to the simulations and
not to the server. `noise` and `selection` have exact probabilities, with a proof of
their ε. All noise is drawn in doubles: this simulates releases, and must never produce a real one.
"""
