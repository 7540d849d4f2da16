"""Alerts: `rules` judge results by their intervals, and `monitor` announces changes once a minute.

Only the operator's file sets rules and the address of the webhook (`rules.read_alerts`).
"""
