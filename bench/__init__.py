"""Measurements: programs that write figures, never tests that watch a clock."""
