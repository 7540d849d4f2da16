"""Tallies of a text question, for whole populations: people by the text that they answer.

The groups for which people report are multinomial, and in each group the design's counts are drawn
together. People who share their text with no one need no text: the hash puts each of them into any
bucket of each group with the same probability.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from deniable.shared.privacy.thresholds import ONE
from deniable.shared.survey.kinds.text import Text
from deniable.simulations.population.tallies import in_groups


def text_tally(
    question: Text, people: Mapping[str, int], alone: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Draw the cells of a round: `people[text]` give each text, and `alone` a unique one."""
    mechanism = question.mechanism
    shares = [share / ONE for share in mechanism.shares]
    buckets = [question.place(text) for text in people]
    assert None not in buckets, "every text is one that a person could answer"
    counts = np.fromiter(people.values(), np.int64, len(people))
    parted = generator.multinomial(counts, shares)
    held = np.stack(
        [
            generator.multinomial(own, np.full(mechanism.size, 1 / mechanism.size))
            for own in generator.multinomial(alone, shares)
        ]
    )
    for group in range(mechanism.groups):
        places = np.array([bucket[group] for bucket in buckets if bucket], np.int64)
        np.add.at(held[group], places, parted[:, group])
    return np.asarray(in_groups(mechanism, held[None], generator)[0])
