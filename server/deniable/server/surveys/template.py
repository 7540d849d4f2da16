"""The survey that `deniable survey new` writes."""

from __future__ import annotations

from datetime import date, timedelta

ROUNDS = 3

_TEMPLATE = """\
# A survey. Once published it never changes: to change it, publish another with the same name.
# `deniable survey check FILE` says what it gives away and how exact its results will be.

[survey]
name = "app-health"               # what apps ask for: letters, digits, dashes
title = "How is the app doing?"
purpose = "Find crashes before users have to tell us."
owner = "Example Ltd, privacy@example.org"
opens = {opens}
closes = {closes}               # last day of the last round; rounds that overlap count as whole
round = "month"                   # once, day, week or month: one report from each install and round
grace_days = 14                   # how long after its round a report is still taken
retention_days = 90               # how long the server keeps reports after that; tallies stay
minimum_reports = 100             # below it no estimate is shown
# ask = 1                         # each install answers one question, drawn at random: then epsilon
#                                 # of a round is the largest below, not their sum
# repeat = "latched"              # a report is kept and sent again: epsilon is spent once in
# repeat_rounds = 3               # so many rounds, and a change among them is not seen
# sealed_to = "..."               # reports are sealed to this key: deniable keys new --sealing FILE

# Every answer is randomized on the device. epsilon says how much one answer may give away: it
# changes the odds about any respondent by a factor of at most 1.7 at 0.5, 2.8 at 1, 7.4 at 2.

[[question]]
name = "crashed"
kind = "bit"                      # yes or no
epsilon = "0.5"

[[question]]
name = "minutes"
kind = "number"                   # in a range; what lies outside counts as its nearest end
low = 0
high = 120
epsilon = "1"

[[question]]
name = "browser"
kind = "choice"
options = ["firefox", "chrome", "safari", "edge", "other"]
other = "other"                   # takes whatever is not listed
epsilon = "0.5"

# [[question]]
# name = "gradient"
# kind = "vector"                 # of length at most 1; its mean is estimated
# dimension = 100                 # how many numbers it has, 2 to 1024
# epsilon = "1"

# [[question]]                    # an open question: what many people write is found, and shown
# name = "word"
# kind = "text"
# length = 8                      # so many bytes of it count
# epsilon = "2"                   # from how many people on, `deniable survey check` says
"""


def template(opens: date) -> str:
    """Three rounds of ε 2: as much as an app's default policy spends in all."""
    after = opens.year * 12 + opens.month - 1 + ROUNDS  # the month that is no round any more
    closes = date(after // 12, after % 12 + 1, 1) - timedelta(days=1)
    return _TEMPLATE.format(opens=opens.isoformat(), closes=closes.isoformat())
