"""What went wrong with a pod, and what it costs the job."""
