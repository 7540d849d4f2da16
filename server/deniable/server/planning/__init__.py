"""Forecast of one question's results before anyone is asked.

`planned_question` reads the question and chooses its mechanism; `forecast` gives its figures, for
devices, a shuffler and a trusted server, and the sentences that sum them up.
"""
