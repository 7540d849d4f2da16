"""Server processes: `roles` defines them; `supervisor` starts, restarts and stops them."""
