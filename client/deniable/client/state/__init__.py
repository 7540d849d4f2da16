"""What is kept on the device, in one SQLite file: the only part of the client that speaks SQL."""
