"""The rules of `decide`, one a file."""
