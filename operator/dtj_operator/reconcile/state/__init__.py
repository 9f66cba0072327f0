"""What one pass over a job works with. Knows no policy."""
