"""Whose turn it is, and how a plan is carried out.

    reflectors ─► cache ─► work queue ─► reconciler: snapshot ─► decide ─► plan executor ─► API server

Nothing here outlives the process but what the API server holds.
"""
