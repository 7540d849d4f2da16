"""The serving process: one port, one lock, one worker that is respawned."""
