"""What one role has besides its template: how many pods, and what happens when one fails."""

from __future__ import annotations

from dtj.convert.conversion import Conversion
from dtj.convert.fields import Fields

REPLICAS_MAX = 2_000
AFTER_DISRUPTION = "a pod that was evicted, preempted, deleted or lost with its node is replaced all the same"
RESTART_NOTES = {
    "Always": "the kubelet restarts the container in its pod, and each end but one with code 0 counts towards "
    "failurePolicy.maxRestarts",
    "OnFailure": "a failed pod is replaced by a new one and counts towards failurePolicy.maxRestarts; before, the "
    "kubelet restarted the container in its pod",
    "Never": f"a failure fails the job; {AFTER_DISRUPTION}",
    "ExitCode": "128, 134 and 139 fail the job, and 42 and 75 are restarted; with a TFJob it is the other way round",
}
"""What each restart policy does."""
EVALUATOR_NOTES = {
    "Always": "the kubelet restarts the container in its pod",
    "OnFailure": "a failed pod is replaced by a new one",
    "Never": f"a failed pod stays as it is; {AFTER_DISRUPTION}",
    "ExitCode": "a failed pod is replaced by a new one, whatever the code",
}
"""What each does for an evaluator, whose failure never concerns the job."""


def convert_count(given: Fields, role: str) -> int:
    """Return the number of pods of a role. Raises ConversionError."""
    count = given.integer("replicas", REPLICAS_MAX)
    if role == "chief" and count is not None and count > 1:
        raise given.error("replicas", f"is {count}, and there is one chief: make the others workers")
    return 1 if count is None else count


def convert_restart_policy(conversion: Conversion, given: Fields, role: str, allowed: tuple[str, ...]) -> str:
    """Return the restart policy of a role, by default the first of those `allowed`. Raises ConversionError."""
    policy = given.choice("restartPolicy", *allowed) or allowed[0]
    path = given.at("restartPolicy")
    if policy == "Always" and role in {"chief", "worker"}:
        policy = "OnFailure"
        conversion.note(
            f"{path} Always becomes OnFailure: a {role} that ends with 0 is done, and is not started again."
        )
    notes = EVALUATOR_NOTES if role == "evaluator" else RESTART_NOTES
    conversion.note(f"{path} {policy}: {notes[policy]}.")
    return policy


def use_strategy_none(conversion: Conversion) -> None:
    """Leave the strategy to the program: under ParameterServer a worker would never be done."""
    conversion.spec["strategy"] = {"type": "None"}
    conversion.note(
        "spec.strategy.type is None because there are ps: the program builds its strategy from TF_CONFIG, and a worker "
        "that ends with 0 is done. Leave it out for a program that calls dtj.fit."
    )
