"""The trainer's errors: one tree, each with the exit class and code that the operator reads (api.md, table of classes)."""


class TrainerError(Exception):
    """Something the trainer says in one sentence: what, where, and the next step.

    `failure_class` and `exit_code` are what the process ends with when nobody catches it.
    """

    failure_class = "user-error"
    exit_code = 1


class UserError(TrainerError):
    """The program asks for something impossible, or its numbers went bad (a NaN loss)."""


class PreflightFailed(TrainerError):
    """Input or configuration is wrong; trying again changes nothing."""

    failure_class = "preflight-failed"


class PeersNotReady(TrainerError):
    """A peer did not resolve or answer in time, at start; trying again may help."""

    failure_class = "preflight-failed"
    exit_code = 75


class PeerLost(TrainerError):
    """Another process of the job went away."""

    failure_class = "peer-lost"
    exit_code = 75


class Fenced(TrainerError):
    """A newer attempt of the job owns the checkpoint directory; this process must write no more."""

    failure_class = "fenced"
    exit_code = 75


class Preempted(TrainerError):
    """Asked to leave (SIGTERM), and the state is saved."""

    failure_class = "preempted"
    exit_code = 42


class PreemptedUnsaved(Preempted):
    """Asked to leave, with nothing to save or nowhere to save it."""

    exit_code = 143
