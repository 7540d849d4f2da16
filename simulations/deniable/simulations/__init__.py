"""The simulator: what the privacy costs, before anyone is asked."""
