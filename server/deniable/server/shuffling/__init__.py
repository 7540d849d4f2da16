"""Privacy of shuffled reports: what one report reveals if only a batch of reports is seen.

`amplification` holds for any randomizer, and knows only its ε. `accountant` computes a smaller ε
from a survey's own integers.
"""
