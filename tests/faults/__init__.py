"""The operator under faults: crashes at every write, stale views, lost events, refusals.

The same workloads, fault plans and invariants run on the API server in this process and on a real one.
`python -m tests.faults` runs all plans on both and writes build/results/faults.json; pytest runs the same plans.
"""
