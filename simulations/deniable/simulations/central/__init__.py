"""Mechanisms of a trusted server, with which the studies compare mechanisms on devices.

They see true answers, as nothing else in this project does, so they belong to the simulations and
not to the server. `discrete_laplace` and `selection` release counts, means, quantiles and choices
by exact random choices, each with a proof of its ε. The other modules draw noise in doubles: that
simulates releases, and must never make one.
"""
