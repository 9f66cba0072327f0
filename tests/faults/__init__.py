"""The operator under faults: crashes at every write, stale views, lost events, refusals.

`python -m tests.faults` runs all plans and writes build/results/faults.json; pytest runs the same plans.
"""
