"""`deniable demo`: a real server, a survey, a crowd of simulated installs; truth and estimate."""
