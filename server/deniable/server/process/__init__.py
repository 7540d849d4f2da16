"""Processes: `supervisor` starts, restarts and stops them; `roles` holds intake and reader."""
