"""The shapes of mechanisms: support designs for bits and choices, number tables for numbers, vector
designs for vectors."""

from deniable.shared.privacy.shapes.number_table import NumberTable
from deniable.shared.privacy.shapes.support import SupportDesign
from deniable.shared.privacy.shapes.vector_design import VectorDesign

# Closed: an estimator and a sampler belong to each, and a `match` on it names all.
Shape = SupportDesign | NumberTable | VectorDesign
