"""What the client sends and fetches: surveys come in, envelopes go out."""
