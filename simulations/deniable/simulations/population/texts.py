"""Tallies of a text question, for whole populations: people by the text that they answer.

Which groups they report for is multinomial, and in each group the design's counts are drawn at
once. Those who share their text with nobody need no text: the hash puts each of them into any
bucket of each group, all alike.
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
    """The cells of one round: `people[text]` answer each text, and `alone` one of their own."""
    mechanism = question.mechanism
    shares = [share / ONE for share in mechanism.shares]
    buckets = [question.place(text) for text in people]
    assert None not in buckets, "each is a text that a person could answer"
    counts = np.fromiter(people.values(), np.int64, len(people))
    parted = generator.multinomial(counts, shares)
    held = np.stack(
        [
            generator.multinomial(own, np.full(mechanism.size, 1 / mechanism.size))
            for own in generator.multinomial(alone, shares)
        ]
    )
    for group in range(mechanism.groups):
        places = np.array([each[group] for each in buckets if each], np.int64)
        np.add.at(held[group], places, parted[:, group])
    return np.asarray(in_groups(mechanism, held[None], generator)[0])
