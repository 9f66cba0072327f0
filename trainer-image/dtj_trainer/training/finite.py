"""What is said of a loss that no training can go on with."""

import math

from dtj_trainer.errors import UserError


def not_finite(loss: float, step: int) -> UserError:
    """The error of a loss that is NaN or infinite."""
    return UserError(
        f"the loss is {'NaN' if math.isnan(loss) else 'infinite'} at step {step}; "
        "lower the learning rate, clip gradients (clip_norm=) or look at the data of that step"
    )
