"""Forecast of one question's results before anyone is asked, and the survey to ask next.

`planned_question` reads the question and chooses its mechanism. `forecast` computes its figures,
for devices, a shuffler and a trusted server, and summarizes them in sentences; `small_groups` adds
the shares that a few people can distinguish. `display_gate` uses it to decide when results are
shown. `follow_up` drafts the next survey from the results of one.
"""
