"""What every study shares: cells, journal, figures, page, and the command that runs it."""
