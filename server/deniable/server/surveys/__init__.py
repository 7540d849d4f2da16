"""Published surveys: found by what people type, published, explained."""
