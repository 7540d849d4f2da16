"""The shapes of mechanisms: support designs for bits and choices, number tables for numbers,
grouped designs for texts, and vector designs for vectors."""

from deniable.shared.privacy.shapes.grouped import GroupedDesign
from deniable.shared.privacy.shapes.number_table import NumberTable
from deniable.shared.privacy.shapes.support import SupportDesign
from deniable.shared.privacy.shapes.vector_design import VectorDesign

# Closed: an estimator and a sampler belong to each, and a `match` on it names them all.
Shape = SupportDesign | NumberTable | GroupedDesign | VectorDesign
