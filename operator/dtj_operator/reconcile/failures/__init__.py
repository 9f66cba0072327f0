"""Failures of pods: what they are, their root cause, and what a restart costs the job."""
