"""Forecast of what one question will show before anyone is asked.

`planned_question` reads the question and chooses its mechanism, `variances` has the formulas for
devices, a shuffler and a trusted server, and `forecast` puts the figures and sentences together.
"""
