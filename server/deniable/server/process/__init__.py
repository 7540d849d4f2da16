"""Server processes: `supervisor` starts, restarts and stops them; `roles` defines them."""
