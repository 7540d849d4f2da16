"""The checks of `deniable doctor`: each says what it saw, and how to cure what is wrong."""
