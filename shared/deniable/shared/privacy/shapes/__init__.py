"""The two shapes of mechanism: support designs for bits and choices, number tables for numbers."""
