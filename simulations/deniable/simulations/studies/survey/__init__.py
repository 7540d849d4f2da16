"""Your own survey on a population of your own: what you will be able to say of it."""

from deniable.simulations.studies.survey.study import STUDY

__all__ = ["STUDY"]
