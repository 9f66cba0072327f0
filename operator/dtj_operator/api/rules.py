"""What the API server refuses beyond types: CEL rules, each with a sentence that says what to
change.

Loops over the roles are cheap because replicaSpecs has at most four entries. The API server
estimates the cost of every rule beforehand, which is why each list and text that a rule can
reach has a bound in the schema, and why no message is computed.
"""

from __future__ import annotations

from typing import NamedTuple

from dtj_operator.api.names import ONE_POD_STRATEGIES


class Rule(NamedTuple):
    """One x-kubernetes-validation."""

    rule: str
    message: str
    path: str = ""
    """fieldPath, relative to where the rule stands."""

    def wire(self) -> dict[str, str]:
        """As it stands in the CRD."""
        result = {"rule": self.rule, "message": self.message}
        if self.path:
            result["fieldPath"] = self.path
        return result


def _count(role: str) -> str:
    return f"('{role}' in self.replicaSpecs ? self.replicaSpecs['{role}'].replicas : 0)"


def _has(role: str) -> str:
    return f"'{role}' in self.replicaSpecs"


_ONE_POD = ", ".join(f"'{kind}'" for kind in ONE_POD_STRATEGIES)
_TYPE = "self.strategy.type"
_MAIN = (
    "(size(self.mainContainer) > 0 ? c.name == self.mainContainer : "
    "(c.name == 'tensorflow' || "
    "(c.name == self.replicaSpecs[r].template.spec.containers[0].name && "
    "!self.replicaSpecs[r].template.spec.containers.exists(d, has(d.name) && d.name == 'tensorflow'))))"
)
_CONTAINERS = "has(self.replicaSpecs[r].template.spec) && has(self.replicaSpecs[r].template.spec.containers)"

SPEC_RULES = (
    Rule(
        "self.replicaSpecs.all(r, r in ['chief', 'worker', 'ps', 'evaluator'])",
        "Unknown role: the keys of replicaSpecs are chief, worker, ps and evaluator, in lower "
        "case; rename or remove the others.",
        ".replicaSpecs",
    ),
    Rule(
        f"{_has('chief')} || {_has('worker')}",
        "A job needs somebody who trains: add replicaSpecs.worker or replicaSpecs.chief.",
        ".replicaSpecs",
    ),
    Rule(
        f"{_count('chief')} <= 1",
        "There is at most one chief: set replicaSpecs.chief.replicas to 1 and make the others workers.",
        ".replicaSpecs",
    ),
    Rule(
        f"{_TYPE} != 'ParameterServer' || ({_count('chief')} > 0 && {_has('worker')} && {_count('ps')} > 0)",
        "ParameterServer needs a chief, worker and ps: add the missing one of "
        "replicaSpecs.chief, .worker and .ps, or use strategy.type None.",
        ".replicaSpecs",
    ),
    Rule(
        f"!({_has('ps')}) || {_TYPE} in ['Auto', 'ParameterServer', 'None']",
        "Only the ParameterServer strategy has ps replicas: remove replicaSpecs.ps, or set "
        "strategy.type to ParameterServer (or to None for an image that does it all itself).",
        ".strategy.type",
    ),
    Rule(
        f"{_TYPE} != 'Auto' || !({_has('ps')}) || ({_count('chief')} > 0 && {_has('worker')})",
        "With ps replicas Auto means ParameterServer, which needs a chief and workers: add the "
        "missing role, or set strategy.type to None for an image that does it all itself.",
        ".replicaSpecs",
    ),
    Rule(
        f"!({_TYPE} in [{_ONE_POD}]) || {_count('chief')} + {_count('worker')} <= 1",
        "This strategy runs in one pod: set strategy.type to MultiWorkerMirrored (or Auto) for "
        "more than one chief or worker, or set replicas to 1.",
        ".replicaSpecs",
    ),
    Rule(
        f"self.strategy.crossDeviceOps == 'Auto' || {_TYPE} in ['Auto', 'Mirrored']",
        "strategy.crossDeviceOps is for Mirrored only: remove it, or set strategy.type to Mirrored.",
        ".strategy.crossDeviceOps",
    ),
    Rule(
        "(self.strategy.communication.implementation == 'Auto' && "
        "self.strategy.communication.timeoutSeconds == 0 && "
        "self.strategy.communication.bytesPerPack == 0) || "
        f"{_TYPE} in ['Auto', 'MultiWorkerMirrored']",
        "strategy.communication is for MultiWorkerMirrored only: remove it, or set strategy.type "
        "to MultiWorkerMirrored.",
        ".strategy.communication",
    ),
    Rule(
        f"!has(self.strategy.variablePartitioner) || {_TYPE} in ['Auto', 'ParameterServer']",
        "strategy.variablePartitioner is for ParameterServer only: remove it, or set strategy.type to ParameterServer.",
        ".strategy.type",
    ),
    Rule(
        "self.replicaSpecs.all(r, !(r in ['chief', 'worker']) || self.replicaSpecs[r].restartPolicy != 'Always')",
        "restartPolicy Always is for ps and evaluator only: use OnFailure for chief and worker.",
        ".replicaSpecs",
    ),
    Rule(
        f"self.replicaSpecs.all(r, {_CONTAINERS} && size(self.replicaSpecs[r].template.spec.containers) > 0)",
        "A template has no container: add one to template.spec.containers of every role.",
        ".replicaSpecs",
    ),
    Rule(
        f"self.replicaSpecs.all(r, !({_CONTAINERS}) || "
        "self.replicaSpecs[r].template.spec.containers.all(c, has(c.image) && size(c.image) > 0 "
        "&& has(c.name) && size(c.name) > 0))",
        "A container has no image or no name: set both in every container of every template.",
        ".replicaSpecs",
    ),
    Rule(
        "size(self.mainContainer) == 0 || self.replicaSpecs.all(r, "
        f"!({_CONTAINERS}) || self.replicaSpecs[r].template.spec.containers.exists(c, "
        "has(c.name) && c.name == self.mainContainer))",
        "mainContainer names a container that a template does not have: name one that is in "
        "every template, or leave mainContainer unset.",
        ".mainContainer",
    ),
    Rule(
        f"self.replicaSpecs.all(r, !({_CONTAINERS}) || "
        "!self.replicaSpecs[r].template.spec.containers.exists(c, has(c.name) && has(c.env) && "
        f"{_MAIN} && c.env.exists(e, has(e.name) && e.name == 'TF_CONFIG')))",
        "TF_CONFIG is set by the operator: remove it from the main container's env.",
        ".replicaSpecs",
    ),
    Rule(
        "self.failurePolicy.backoff.maxSeconds >= self.failurePolicy.backoff.initialSeconds",
        "failurePolicy.backoff.maxSeconds is smaller than initialSeconds: raise it, or lower initialSeconds.",
        ".failurePolicy.backoff.maxSeconds",
    ),
    Rule(
        "size(self.checkpoint.persistentVolumeClaim) == 0 || self.checkpoint.directory.startsWith('/')",
        "checkpoint.persistentVolumeClaim is mounted at checkpoint.directory: set directory to an absolute path.",
        ".checkpoint.directory",
    ),
)

MANAGED_BY_RULE = Rule(
    "self == oldSelf",
    "managedBy cannot be changed: delete the job and create it anew.",
)

_STARTED = "has(oldSelf.status) && has(oldSelf.status.startTime)"
_WAY_OUT = "suspend the job first and change it before it is resumed."


def _fixed(field: str, *, optional: bool = False) -> Rule:
    new, old = f"self.spec.{field}", f"oldSelf.spec.{field}"
    same = f"{new} == {old}"
    if optional:
        same = f"has({new}) == has({old}) && (!has({new}) || {same})"
    return Rule(
        f"!({_STARTED}) || ({same})",
        f"{field} cannot be changed while the job runs: {_WAY_OUT}",
        f".spec.{field}",
    )


JOB_RULES = (
    # DNS-1035: the name becomes a service's, and part of host names.
    Rule(
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "The name becomes part of host names: use lower-case letters, digits and '-', begin with a letter, "
        "and end with a letter or digit.",
    ),
    Rule(
        "size(self.metadata.name) <= 40",
        "The name is longer than 40 characters, and the names of the pods would not fit: choose a shorter one.",
    ),
    _fixed("strategy"),
    _fixed("mainContainer"),
    _fixed("clusterDomain"),
    _fixed("successPolicy"),
    _fixed("checkpoint"),
    _fixed("startDeadlineSeconds", optional=True),
    _fixed("failurePolicy.restartScope"),
    _fixed("failurePolicy.backoff"),
    _fixed("failurePolicy.nodeLossSeconds"),
    _fixed("failurePolicy.rules"),
    Rule(
        f"!({_STARTED}) || (size(self.spec.replicaSpecs) == size(oldSelf.spec.replicaSpecs) && "
        "self.spec.replicaSpecs.all(r, r in oldSelf.spec.replicaSpecs && "
        "(r == 'worker' || self.spec.replicaSpecs[r].replicas == "
        "oldSelf.spec.replicaSpecs[r].replicas) && self.spec.replicaSpecs[r].restartPolicy == "
        "oldSelf.spec.replicaSpecs[r].restartPolicy))",
        "Of replicaSpecs only worker.replicas can be changed while the job runs: " + _WAY_OUT,
        ".spec.replicaSpecs",
    ),
    # Both ways: `==` looks for the declared keys of its left side alone, so that an undeclared key could stand in for
    # one of them. One undeclared key for another is what no rule can see; the operator reports that as drift.
    Rule(
        f"!({_STARTED}) || self.spec.replicaSpecs.all(r, !(r in oldSelf.spec.replicaSpecs) || "
        "(self.spec.replicaSpecs[r].template == oldSelf.spec.replicaSpecs[r].template && "
        "oldSelf.spec.replicaSpecs[r].template == self.spec.replicaSpecs[r].template))",
        "A template cannot be changed while the job runs: " + _WAY_OUT,
        ".spec.replicaSpecs",
    ),
)
