"""Forecast of one question's results before anyone is asked.

`planned_question` reads the question and chooses its mechanism. `forecast` computes its figures,
for devices, a shuffler and a trusted server, and summarizes them in sentences.
"""
