"""Reconciles jobs, one key at a time, and carries out what is decided.

    reflectors ─► cache ─► work queue ─► reconciler: snapshot ─► decide ─► plan executor ─► API server

Nothing here is kept beyond the process except what the API server holds.
"""
