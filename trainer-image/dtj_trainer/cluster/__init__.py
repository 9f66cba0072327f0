"""What this pod was told and what it has; standard library only."""
