"""Families of mechanisms: base classes that share a way of counting and estimating.

Bits and choices use support designs, numbers use number tables, texts grouped designs, and vectors
vector designs. Code that needs numpy is in tables keyed by these classes: the server's estimators
and forgery tests, and the simulator's samplers.
"""
