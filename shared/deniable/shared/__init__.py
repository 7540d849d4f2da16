"""What client, server and simulator agree on: surveys, mechanisms, the wire format."""
