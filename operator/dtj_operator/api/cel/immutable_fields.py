"""The fields that must not change while a job runs, as rules in CEL; all of them are one rule of the CRD."""

from __future__ import annotations

from dtj_operator.api.cel.rule import Rule

_ADVICE = "suspend the job first and change it before it is resumed."


def _immutable(field: str, same: str = "") -> Rule:
    return Rule(
        same or f"self.spec.{field} == oldSelf.spec.{field}",
        f"{field} cannot be changed while the job runs: {_ADVICE}",
    )


IMMUTABLE_RULES = (
    _immutable("strategy"),
    _immutable("mainContainer"),
    _immutable("clusterDomain"),
    _immutable("successPolicy"),
    _immutable("checkpoint"),
    _immutable(
        "startDeadlineSeconds",
        "has(self.spec.startDeadlineSeconds) == has(oldSelf.spec.startDeadlineSeconds) && "
        "(!has(self.spec.startDeadlineSeconds) || "
        "self.spec.startDeadlineSeconds == oldSelf.spec.startDeadlineSeconds)",
    ),
    _immutable(
        "profile",
        "has(self.spec.profile) == has(oldSelf.spec.profile) && "
        "(!has(self.spec.profile) || self.spec.profile == oldSelf.spec.profile)",
    ),
    _immutable(
        "tpu",
        "has(self.spec.tpu) == has(oldSelf.spec.tpu) && (!has(self.spec.tpu) || self.spec.tpu == oldSelf.spec.tpu)",
    ),
    _immutable("failurePolicy.restartScope"),
    _immutable("failurePolicy.backoff"),
    _immutable("failurePolicy.nodeLossSeconds"),
    _immutable("failurePolicy.rules"),
    Rule(
        "size(self.spec.replicaSpecs) == size(oldSelf.spec.replicaSpecs) && "
        "self.spec.replicaSpecs.all(r, r in oldSelf.spec.replicaSpecs && "
        "(r == 'worker' || self.spec.replicaSpecs[r].replicas == "
        "oldSelf.spec.replicaSpecs[r].replicas) && self.spec.replicaSpecs[r].restartPolicy == "
        "oldSelf.spec.replicaSpecs[r].restartPolicy)",
        "Of replicaSpecs only worker.replicas can be changed while the job runs: " + _ADVICE,
    ),
    # Compared in both directions: `==` looks at the declared keys of its left side alone, so that an undeclared key
    # could replace a declared one. No rule can see one undeclared key replaced by another; the operator reports that.
    Rule(
        "self.spec.replicaSpecs.all(r, !(r in oldSelf.spec.replicaSpecs) || "
        "(self.spec.replicaSpecs[r].template == oldSelf.spec.replicaSpecs[r].template && "
        "oldSelf.spec.replicaSpecs[r].template == self.spec.replicaSpecs[r].template))",
        "A template cannot be changed while the job runs: " + _ADVICE,
    ),
)
"""What must not change while a job runs; the CRD has all of them as one rule, STARTED_RULE."""

_ALL_UNCHANGED = " && ".join(f"({each.rule})" for each in IMMUTABLE_RULES)
_MESSAGES = " + ".join(f"(({each.rule}) ? '' : '{each.message} ')" for each in IMMUTABLE_RULES)

STARTED_RULE = Rule(
    "!has(oldSelf.status) || !has(oldSelf.status.startTime) || "
    # A write changes the spec or the status, never both: if the message differs, the spec is the same.
    "(has(self.status) && has(self.status.message) && has(oldSelf.status.message) && "
    "self.status.message != oldSelf.status.message) || "
    f"({_ALL_UNCHANGED})",
    f"This cannot be changed while the job runs: {_ADVICE}",
    ".spec",
    _MESSAGES,
)
