"""The values of one pass over a job. Knows no policy."""
