"""Exact probabilities: each mechanism a table of integers, with the proof that it keeps its ε."""
