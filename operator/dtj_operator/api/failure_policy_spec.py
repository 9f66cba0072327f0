"""The failure policy in the spec: which failures lead to a restart, how many, and after how much time."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from dtj_operator.api.constants import NAME_MAX, PATTERN_MAX, SECONDS_MAX
from dtj_operator.api.enums import RestartScope, Role, RuleAction
from dtj_operator.api.wire_model import WireModel


class Backoff(WireModel):
    """The time between a failure and its restart."""

    initial_seconds: int = Field(
        1,
        ge=0,
        le=SECONDS_MAX,
        description="Seconds before the first charged restart; doubles with each further one. 0 "
        "means no backoff at all.",
    )
    max_seconds: int = Field(300, ge=0, le=SECONDS_MAX, description="Longest backoff in seconds.")
    reset_after_seconds: int = Field(
        600,
        ge=0,
        le=SECONDS_MAX,
        description="Seconds of Running after which the backoff starts again at initialSeconds.",
    )


class ExitCodes(WireModel):
    """A set of exit codes."""

    operator: Literal["In", "NotIn"] = Field(
        description="In: the exit code is one of values. NotIn: it is none of them."
    )
    values: tuple[int, ...] = Field(
        description="Exit codes of the main container.",
        min_length=1,
        max_length=255,
    )


class FailureRule(WireModel):
    """An action for root causes that match; the first rule that matches wins."""

    name: str = Field("", max_length=NAME_MAX, description="A name for messages and events, free to choose.")
    roles: tuple[Role, ...] = Field((), max_length=4, description="Roles the rule is for; empty means every role.")
    exit_codes: ExitCodes | None = Field(None, description="Exit codes the rule is for; omitted means every end.")
    reasons: tuple[str, ...] = Field(
        (),
        max_length=64,
        description="Reasons of the terminated container, of the pod or of its disruption, for "
        "instance OOMKilled or Evicted; empty means every reason.",
    )
    message_pattern: str = Field(
        "",
        max_length=PATTERN_MAX,
        description="RE2 expression that has to match somewhere in the termination message; empty means every message.",
    )
    action: RuleAction = Field(
        description="Ignore restarts as usual without counting it. RestartPod, RestartRole and "
        "RestartJob restart that much. FailJob fails the job with reason FailedByRule."
    )
    count_towards_limit: bool = Field(
        True,
        description="Whether the restart counts towards maxRestarts. The backoff applies in both cases.",
    )


class FailurePolicy(WireModel):
    """The rules for failures: which lead to a restart, and how many restarts are allowed."""

    max_restarts: int = Field(
        3,
        ge=0,
        le=SECONDS_MAX,
        description="Number of charged incidents that lead to a restart; the next one fails the job.",
    )
    restart_scope: RestartScope = Field(
        RestartScope.AUTO,
        description="Which pods a restart replaces: Auto follows the strategy, Pod the failed "
        "ones, Role all of the failed role, Job every unfinished chief, worker and ps.",
    )
    backoff: Backoff = Field(Backoff(), description="Time between a failure and its restart.")
    node_loss_seconds: int = Field(
        30,
        ge=1,
        le=SECONDS_MAX,
        description="A node that has not renewed its Lease for this many seconds counts as lost, "
        "and its pods are replaced. Fewer than 12 act as 12: a kubelet renews it every 10 seconds.",
    )
    rules: tuple[FailureRule, ...] = Field(
        (),
        max_length=32,
        description="Rules that are tried before restartPolicy; the first that matches the root cause wins.",
    )
