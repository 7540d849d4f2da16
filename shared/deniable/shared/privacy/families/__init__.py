"""Families of mechanisms: the classes that share one way of counting and estimating.

Support designs answer bits and choices, number tables numbers, grouped designs texts, vector
designs vectors. What a family needs of numpy stands in tables keyed by these classes: the server's
estimators and forgery tests, and the simulator's samplers.
"""
