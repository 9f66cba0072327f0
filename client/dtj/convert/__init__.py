"""Turns jobs of other operators into DistributedTrainingJobs, and tells what behaves differently."""
