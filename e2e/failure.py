"""How a command for people ends when it cannot go on."""


class Failure(Exception):  # noqa: N818 - how a command ends, not a fault
    """One sentence for people: what is wrong, where, and what to do next."""
