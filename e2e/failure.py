"""The error that ends a command."""


class Failure(Exception):  # noqa: N818 - how a command ends, not a fault
    """One sentence for people: what is wrong, where, and what to do next."""
