"""The CEL rules by which the API server refuses a job, each with a message that says what to change.

Loops over the roles are cheap because replicaSpecs has at most four entries. The API server
estimates the cost of every rule in advance. Therefore each list and text that a rule reads has a
limit in the schema.

The API server evaluates all rules with every write, also with a write of the status. To look up
one field it copies the schemas of all fields beside it. Therefore a rule stands as deep as
possible, where few fields are declared, and all rules about immutable fields are one rule that
ends early when the status was written. A rule of an object whose default is {} has to hold for
the empty object, because the defaults inside are set later.
"""

from __future__ import annotations

from dtj_operator.api.cel.immutable_fields import STARTED_RULE
from dtj_operator.api.cel.rule import Rule
from dtj_operator.api.constants import TOPOLOGY_PATTERN
from dtj_operator.api.enums import ONE_POD_STRATEGIES


def _count(role: str) -> str:
    return f"('{role}' in self.replicaSpecs ? self.replicaSpecs['{role}'].replicas : 0)"


def _has(role: str) -> str:
    return f"'{role}' in self.replicaSpecs"


_ONE_POD = ", ".join(f"'{kind}'" for kind in ONE_POD_STRATEGIES)
_TYPE = "self.strategy.type"
_TEMPLATE = "self.replicaSpecs[r].template"
_CONTAINERS = f"{_TEMPLATE}.spec.containers"
_HAS_CONTAINERS = f"has({_TEMPLATE}.spec) && has({_CONTAINERS})"
_MAIN = (
    "has(c.name) && (size(self.mainContainer) > 0 ? c.name == self.mainContainer : "
    f"(c.name == 'tensorflow' || (c.name == {_CONTAINERS}[0].name && "
    f"!{_CONTAINERS}.exists(d, has(d.name) && d.name == 'tensorflow'))))"
)

ROLES_RULES = (
    Rule(
        "self.all(r, r in ['chief', 'worker', 'ps', 'evaluator'])",
        "Unknown role: the keys of replicaSpecs are chief, worker, ps and evaluator, in lower "
        "case; rename or remove the others.",
    ),
    Rule(
        "'chief' in self || 'worker' in self",
        "A job needs somebody who trains: add replicaSpecs.worker or replicaSpecs.chief.",
    ),
    Rule(
        "!('chief' in self) || self['chief'].replicas <= 1",
        "There is at most one chief: set replicaSpecs.chief.replicas to 1 and make the others workers.",
    ),
    Rule(
        "self.all(r, !(r in ['chief', 'worker']) || self[r].restartPolicy != 'Always')",
        "restartPolicy Always is for ps and evaluator only: use OnFailure for chief and worker.",
    ),
)

TEMPLATE_RULE = Rule(
    "size(self.?spec.?containers.orValue([])) > 0",
    "A template has no container: add one to template.spec.containers of every role.",
)

CONTAINER_RULE = Rule(
    "self.?image.orValue('') != '' && self.?name.orValue('') != ''",
    "A container has no image or no name: set both in every container of every template.",
)

STRATEGY_RULES = (
    Rule(
        "self.?crossDeviceOps.orValue('Auto') == 'Auto' || self.type in ['Auto', 'Mirrored']",
        "strategy.crossDeviceOps is for Mirrored only: remove it, or set strategy.type to Mirrored.",
        ".crossDeviceOps",
    ),
    Rule(
        "!has(self.communication) || (self.communication.implementation == 'Auto' && "
        "self.communication.timeoutSeconds == 0 && self.communication.bytesPerPack == 0) || "
        "self.type in ['Auto', 'MultiWorkerMirrored']",
        "strategy.communication is for MultiWorkerMirrored only: remove it, or set strategy.type "
        "to MultiWorkerMirrored.",
        ".communication",
    ),
    Rule(
        "!has(self.variablePartitioner) || self.type in ['Auto', 'ParameterServer']",
        "strategy.variablePartitioner is for ParameterServer only: remove it, or set strategy.type to ParameterServer.",
        ".type",
    ),
)

SPEC_RULES = (
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
        f"!({_has('ps')}) || {_TYPE} != 'Auto' || ({_count('chief')} > 0 && {_has('worker')})",
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
        f"self.mainContainer == '' || self.replicaSpecs.all(r, !({_HAS_CONTAINERS}) || "
        f"{_CONTAINERS}.exists(c, has(c.name) && c.name == self.mainContainer))",
        "mainContainer names a container that a template does not have: name one that is in "
        "every template, or leave mainContainer unset.",
        ".mainContainer",
    ),
    Rule(
        f"self.replicaSpecs.all(r, !({_HAS_CONTAINERS} && {_CONTAINERS}.exists(c, "
        f"has(c.env) && c.env.exists(e, has(e.name) && e.name == 'TF_CONFIG') && {_MAIN})))",
        "TF_CONFIG is set by the operator: remove it from the main container's env.",
        ".replicaSpecs",
    ),
)


def _chips(topology: str) -> str:
    return f"[{topology}.split('x').map(n, int(n))].map(c, c[0] * c[1] * (size(c) > 2 ? c[2] : 1))[0]"


# A topology that is none is refused by its pattern.
_NO_SLICE = f"!has(self.tpu) || !self.tpu.topology.matches('{TOPOLOGY_PATTERN}')"
_HOSTS = f"({_chips('self.tpu.topology')} / self.tpu.chipsPerHost)"

TPU_RULE = Rule(
    f"!self.topology.matches('{TOPOLOGY_PATTERN}') || {_chips('self.topology')} % self.chipsPerHost == 0",
    "The chips of tpu.topology are not a multiple of tpu.chipsPerHost: take the topology of the node pool, and the "
    "chips of its machine type.",
)

TPU_RULES = (
    Rule(
        f"!has(self.tpu) || {_TYPE} in ['Auto', 'TPU']",
        "spec.tpu is for the TPU strategy only: remove it, or set strategy.type to TPU (or Auto).",
        ".strategy.type",
    ),
    Rule(
        f"!has(self.tpu) || !({_has('ps')})",
        "A job with spec.tpu has no ps replicas: remove replicaSpecs.ps.",
        ".replicaSpecs",
    ),
    Rule(
        f"{_NO_SLICE} || {_HOSTS} != 1 || {_count('chief')} + {_count('worker')} == 1",
        "A TPU slice of one host is one pod, which runs the program: ask for one worker, or for a chief and no worker.",
        ".replicaSpecs",
    ),
    Rule(
        f"{_NO_SLICE} || {_HOSTS} == 1 || ({_count('worker')} == {_HOSTS} && {_count('chief')} == 1)",
        "A TPU slice of several hosts has one chief, which runs the program, and a worker for each host: set "
        "worker.replicas to the chips of tpu.topology divided by tpu.chipsPerHost, and chief.replicas to 1. A slice "
        "cannot be scaled, and a job has one.",
        ".replicaSpecs",
    ),
)

BACKOFF_RULE = Rule(
    "!has(self.maxSeconds) || self.maxSeconds >= self.initialSeconds",
    "failurePolicy.backoff.maxSeconds is smaller than initialSeconds: raise it, or lower initialSeconds.",
    ".maxSeconds",
)

CHECKPOINT_RULE = Rule(
    "self.?persistentVolumeClaim.orValue('') == '' || self.directory.startsWith('/')",
    "checkpoint.persistentVolumeClaim is mounted at checkpoint.directory: set directory to an absolute path.",
    ".directory",
)

MANAGED_BY_RULE = Rule(
    "self == oldSelf",
    "managedBy cannot be changed: delete the job and create it again.",
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
    STARTED_RULE,
)

RULES_BY_PATH: dict[str, tuple[Rule, ...]] = {
    "": JOB_RULES,
    "spec": SPEC_RULES + TPU_RULES,
    "spec.tpu": (TPU_RULE,),
    "spec.managedBy": (MANAGED_BY_RULE,),
    "spec.strategy": STRATEGY_RULES,
    "spec.replicaSpecs": ROLES_RULES,
    "spec.replicaSpecs.*.template": (TEMPLATE_RULE,),
    "spec.replicaSpecs.*.template.spec.containers.*": (CONTAINER_RULE,),
    "spec.failurePolicy.backoff": (BACKOFF_RULE,),
    "spec.checkpoint": (CHECKPOINT_RULE,),
}
"""The rules by their place in the schema; a star is every entry of a map or list."""
