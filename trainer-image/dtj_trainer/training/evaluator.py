"""The evaluator: evaluates every checkpoint of a training that it has not evaluated yet, until that is finished.

It runs beside the training, on one device, and writes only its own summaries.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from dtj_trainer.checkpoint.broken import BrokenCheckpoint
from dtj_trainer.checkpoint.checkpoint_manager import CheckpointManager
from dtj_trainer.context import TrainContext
from dtj_trainer.contract import job_of
from dtj_trainer.errors import PreemptedUnsaved, PreflightFailed
from dtj_trainer.ipc.messages import StepsDone
from dtj_trainer.reporting.event_files import EventFileWriter
from dtj_trainer.storage.folder import read_json, write_json
from dtj_trainer.storage.open import open_folder
from dtj_trainer.training.history import numbers

POLL_SECONDS = 1.0
SEEN = "evaluated.json"


class EvaluatorLoop:
    """The loop of the evaluator; `evaluate` returns the metrics of the checkpoint that was restored."""

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
        logs = f"{checkpoints.logs}/eval"
        self._folder = open_folder(logs)
        self._folder.make()
        self._events = EventFileWriter(logs)
        state = read_json(self._folder, SEEN) or {}
        same_job = job_of(state) == context.environment.job_hash
        self._seen: dict[int, Mapping[str, float]] = (
            {int(step): found for step, found in dict(state.get("steps") or {}).items()} if same_job else {}
        )

    def run(self) -> tuple[int, Mapping[str, float]]:
        """Evaluate until the training has finished and its last step is evaluated; returns that step and its metrics.

        Raises:
            PreemptedUnsaved: the evaluator is preempted.
        """
        reporter = self._context.reporter
        preempted = self._context.commands.preempted
        while True:
            reporter.phase("wait")
            record = self._checkpoints.recorded()
            for step in self._checkpoints.all_steps():
                if step not in self._seen and not preempted.is_set():
                    self._evaluate_step(step)
            final = None if record is None else record.final_step
            if final is not None and (final in self._seen or final not in self._checkpoints.all_steps()):
                self._events.close()
                return final, self._seen.get(final, {})
            if preempted.wait(POLL_SECONDS):
                raise PreemptedUnsaved("asked to leave before the training was finished; what was evaluated is kept")

    def _evaluate_step(self, step: int) -> None:
        """Evaluate one checkpoint; skip it if it is broken, or deleted, or the evaluator is preempted, meanwhile."""
        reporter = self._context.reporter
        reporter.phase("wait")  # a large checkpoint takes its time, which is no stall
        started = time.monotonic()
        try:
            if not self._checkpoints.restore_step(step):
                return
        except BrokenCheckpoint as error:
            print(f"dtj: the checkpoint of step {step} is broken ({error}); it is not evaluated", flush=True)  # noqa: T201 - the console line
            self._seen[step] = {}
            return
        reporter.phase("validate")
        found = self._evaluate()
        if found is None:
            return
        metrics = numbers(found)
        seconds = time.monotonic() - started
        self._seen[step] = metrics
        steps = {str(each): dict(found) for each, found in self._seen.items()}
        write_json(self._folder, SEEN, {"job": self._context.environment.job_hash, "steps": steps})
        self._events.write(step, metrics)
        self._events.flush()
        reporter.steps_done(StepsDone(step, 1, seconds, loss=metrics.get("val_loss"), metrics=metrics))
        shown = "  ".join(f"{key} {value:.4g}" for key, value in metrics.items())
        print(f"dtj: evaluated step {step}  {shown}", flush=True)  # noqa: T201 - the console line
