"""The evaluator: evaluates every kept checkpoint that it has not seen, until the job is done.

It works beside the job, on one device, and writes nothing but its own summaries.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from dtj_trainer.checkpoint import done_file
from dtj_trainer.checkpoint.checkpoint_manager import CheckpointManager
from dtj_trainer.context import TrainContext
from dtj_trainer.errors import PreemptedUnsaved, PreflightFailed
from dtj_trainer.ipc.messages import StepsDone
from dtj_trainer.reporting.event_files import EventFileWriter
from dtj_trainer.storage.folder import read_json, write_json
from dtj_trainer.storage.open import open_folder
from dtj_trainer.training.history import numbers

POLL_SECONDS = 1.0
SEEN = "evaluated.json"


class EvaluatorLoop:
    """One evaluator; `evaluate` returns the metrics of what `checkpoints` has restored."""

    def __init__(
        self,
        context: TrainContext,
        checkpoints: CheckpointManager,
        evaluate: Callable[[], Mapping[str, Any] | None] | None,
    ) -> None:
        if evaluate is None:
            raise PreflightFailed("the evaluator has nothing to evaluate; give validation= to the training")
        self._context = context
        self._checkpoints = checkpoints
        self._evaluate = evaluate
        logs = f"{context.environment.checkpoint.logs}/eval"
        self._place = open_folder(logs)
        self._place.make()
        self._events = EventFileWriter(logs)
        note = read_json(self._place, SEEN) or {}
        same_job = note.get("uid", "") == context.environment.uid
        self._seen: dict[int, Mapping[str, float]] = (
            {int(step): found for step, found in dict(note.get("steps") or {}).items()} if same_job else {}
        )

    def to_the_end(self) -> tuple[int, Mapping[str, float]]:
        """Evaluate until the step of done.json is evaluated; that step and its metrics.

        Raises:
            PreemptedUnsaved: asked to leave.
        """
        environment, reporter = self._context.environment, self._context.reporter
        preempted = self._context.commands.preempted
        while True:
            reporter.phase("wait")
            done = done_file.read(environment.checkpoint.directory, environment.uid)
            for step in self._checkpoints.all_steps():
                if step not in self._seen and not preempted.is_set():
                    self._look(step)
            if done is not None and (done.step in self._seen or done.step not in self._checkpoints.all_steps()):
                self._events.close()
                return done.step, self._seen.get(done.step, {})
            if preempted.wait(POLL_SECONDS):
                raise PreemptedUnsaved("asked to leave before the job was done; what was evaluated is kept")

    def _look(self, step: int) -> None:
        """Evaluate one checkpoint, unless it is pruned, or we are asked to leave, meanwhile."""
        reporter = self._context.reporter
        reporter.phase("validate")
        started = time.monotonic()
        if not self._checkpoints.restore_step(step):
            return
        found = self._evaluate()
        if found is None:
            return
        metrics = numbers(found)
        seconds = time.monotonic() - started
        self._seen[step] = metrics
        steps = {str(each): dict(found) for each, found in self._seen.items()}
        write_json(self._place, SEEN, {"uid": self._context.environment.uid, "steps": steps})
        self._events.write(step, metrics)
        self._events.flush()
        reporter.steps_done(StepsDone(step, 1, seconds, loss=metrics.get("val_loss"), metrics=metrics))
        shown = "  ".join(f"{key} {value:.4g}" for key, value in metrics.items())
        print(f"dtj: evaluated step {step}  {shown}", flush=True)  # noqa: T201 - the console line
