"""Restores the newest whole checkpoint, the same one in every process.

The chief names a checkpoint, all processes read it at once, and the chief says whether it was whole; a process without
peers decides by itself. A broken one is set aside only when a whole one is found: otherwise the next start would begin
from nothing.
"""

from collections.abc import Callable, Mapping

from dtj_trainer.checkpoint import index_file
from dtj_trainer.checkpoint.broken import BrokenCheckpoint, set_aside
from dtj_trainer.checkpoint.checkpointer import Checkpointer
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.strategy.coordination import CoordinationService

TRY, NONE, REFUSED = "try ", "none", "refused "
"""What the chief says: read this checkpoint; there is none; all are broken."""
WHOLE, BROKEN = "whole", "broken"


def restore_newest(
    checkpointer: Checkpointer,
    coordination: CoordinationService,
    objects: Mapping[str, object],
    check: Callable[[], None],
) -> bool:
    """Restore the newest whole checkpoint into `objects`; returns False where there is none.

    `check` raises where the checkpoints are of another kind of job; it is called before a value is assigned.

    Raises:
        PreflightFailed: all checkpoints are broken; this one is of another model; this process cannot see it.
        Fenced: a newer attempt has taken over.
    """
    if checkpointer.owner is None and coordination.has_peers:
        return _follow(checkpointer, coordination, objects, check)
    files, listed = checkpointer.folder.names(), index_file.read(checkpointer.folder)
    names = index_file.candidates(listed or (), files)
    broken: dict[str, str] = {}
    tried = 0
    for name in names:
        if not index_file.is_complete(name, files):
            broken[name] = "a file of it is missing"
            continue
        coordination.broadcast(f"{TRY}{name}")
        tried += 1
        check()
        try:
            checkpointer.restore(name, objects)
        except BrokenCheckpoint as error:
            broken[name] = str(error)
            coordination.broadcast(BROKEN)
            continue
        coordination.broadcast(WHOLE)
        if tried > 1:
            coordination.barrier()  # the others may still look for one that is set aside now
        whole = [each for each in names if each not in broken and index_file.is_complete(each, files)]
        if checkpointer.owner is not None and (broken or whole != listed):
            checkpointer.owner.check()
            set_aside(checkpointer.folder, broken, whole)
        return True
    refusal = _refusal(checkpointer.folder.name, broken, lists_nothing=listed == [])
    coordination.broadcast(f"{REFUSED}{refusal}" if refusal else NONE)
    if refusal:
        coordination.barrier()  # this process holds the store: the others have to have read it
        raise PreflightFailed(refusal)
    return False


def _follow(
    checkpointer: Checkpointer,
    coordination: CoordinationService,
    objects: Mapping[str, object],
    check: Callable[[], None],
) -> bool:
    """Restore what the chief does."""
    tried = 0
    while (said := coordination.broadcast("")).startswith(TRY):
        name, why = said.removeprefix(TRY), ""
        tried += 1
        check()
        checkpointer.wait_until_visible(name)
        try:
            checkpointer.restore(name, objects)
        except BrokenCheckpoint as error:
            why = str(error)
        if coordination.broadcast("") == BROKEN:
            continue
        if tried > 1:
            coordination.barrier()
        if why:
            raise PreflightFailed(
                f"the chief resumes from {checkpointer.folder.name}/{name} and this process cannot read it ({why}); "
                "mount the same volume in every replica"
            )
        return True
    if said.startswith(REFUSED):
        coordination.barrier()
        raise PreflightFailed(said.removeprefix(REFUSED))
    return False


def _refusal(folder: str, broken: Mapping[str, str], *, lists_nothing: bool) -> str:
    """Return why nothing is restored although something was saved; empty where nothing was."""
    way_out = "put a whole checkpoint there, or use another checkpoint directory"
    if broken:
        each = ", ".join(f"{name}: {why}" for name, why in broken.items())
        return f"no checkpoint in {folder} is whole ({each}); {way_out}"
    if lists_nothing:
        return f"the file {folder}/{index_file.NAME} is broken, and there is no checkpoint beside it; {way_out}"
    return ""
