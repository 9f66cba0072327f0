"""Whether a program for one process trains the same on any replicas: kinds of losses, and ways to divide a batch."""
