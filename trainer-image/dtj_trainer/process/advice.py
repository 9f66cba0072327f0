"""What to change in a program that does not ask for us as it should, told from the exception that ended it.

Standard library only: programs may never import TensorFlow.
"""

import re
import sys
import traceback
from typing import Final

from dtj_trainer.errors import UserError
from dtj_trainer.exit_status import file_and_line, own_frame

_STRATEGIES_MEET: Final = "Mixing different tf.distribute.Strategy objects"
_INSIDE_A_SCOPE: Final = "Must not be called inside a `tf.distribute.Strategy` scope"
"""What `dtj.init()` ends with there."""
_OF_SEVERAL_PROCESSES: Final = re.compile(
    r"^Attempt to convert a value \(PerReplica:|^Invalid reduction dimension 0 |PerWorker"
    r"|`?ParameterServerStrategy`? (is not|must)|ClusterCoordinator"
)
"""What Keras 3's own methods end with under strategies of several processes."""
_ESTIMATOR: Final = re.compile(
    r"^module 'tensorflow[\w.]*' has no attribute 'estimator'|^cannot import name 'estimator' from 'tensorflow"
    r"|^No module named 'tensorflow[._]estimator"
)
_OURS: Final = ("fit", "evaluate", "predict")
"""The methods of a Keras model that are also functions of ours."""
_CALL: Final = re.compile(r"\.(fit|evaluate|predict|train_on_batch|test_on_batch|predict_on_batch)\(")


def advised(error: BaseException) -> BaseException:
    """Return the error to tell people of: one with advice in place of an error that is known."""
    advice = advice_on(error)
    return error if advice is None else UserError(advice)


def advice_on(error: BaseException) -> str | None:
    """Return the sentence that names the line to change, where the error is a known one; None for all others."""
    text = str(error).strip()
    frame = own_frame([*traceback.extract_stack(), *traceback.extract_tb(error.__traceback__)])
    where = "" if frame is None else f" ({file_and_line(frame)})"
    if _ESTIMATOR.match(text):
        return (
            f"this TensorFlow has no Estimators any more{where}; build the model with Keras, and train it with "
            "dtj.init() and dtj.fit(model, …)"
        )
    if text.startswith(_INSIDE_A_SCOPE) or (text.startswith(_STRATEGIES_MEET) and _has_context()):
        return (
            f"the program builds a strategy of its own beside the job's{where}; remove it and its `with "
            "strategy.scope():`, and call dtj.init() at the top of the program: that builds the strategy"
        )
    if _OF_SEVERAL_PROCESSES.search(text):
        called = None if frame is None else _CALL.search(frame.line or "")
        return None if called is None else _instead_of(called[1], where)
    return None


def _instead_of(method: str, where: str) -> str:
    """Return what to write for a method of a Keras 3 model that does not work in several processes."""
    fails = f"model.{method} of Keras 3 does not work in several processes{where}; "
    if method not in _OURS:
        return fails + "train with dtj.fit(model, …), after which each process has its own model, or in one process"
    if _has_context():
        return fails + f"write dtj.{method}(model, …) in its place, with the same arguments"
    return (
        fails + f"call dtj.init() in place of building a strategy, and dtj.{method}(model, …) in place of "
        f"model.{method}(…)"
    )


def _has_context() -> bool:
    """Return whether the program has called dtj.init()."""
    ended = sys.modules.get("dtj_trainer.process.program_end")
    return ended is not None and bool(ended.is_watched())
