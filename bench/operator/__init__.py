"""The operator on a real API server, beside a bare client as the ceiling."""
