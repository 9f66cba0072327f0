"""The decision for one job: a snapshot in, a plan out. Pure."""
