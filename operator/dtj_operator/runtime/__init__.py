"""The machinery around `decide`: what is known, whose turn it is, and how a plan is carried out.

    event sources ─► store ─► queue ─► reconciler: snapshot ─► decide ─► executor ─► API server

Nothing here outlives the process but what the API server holds.
"""
