"""Which jobs are not this operator's to touch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dtj_operator.api.job import Job


def hands_off(job: Job) -> bool:
    """No pods, no status, no events: somebody else manages the job, it is being deleted (the
    garbage collector follows the owner references), or its status cannot be understood.
    """
    return not job.managed_here or job.deleted_at is not None or not job.status_readable
