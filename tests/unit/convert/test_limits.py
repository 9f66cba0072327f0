"""The client knows some constants of the operator, which it does not import: they are the same."""

from dtj.convert import conversion, fields, pod_template, replicas
from dtj_operator.api import constants
from dtj_operator.api.cel.rules import JOB_RULES
from dtj_operator.api.enums import CleanPodPolicy, RestartPolicy, Role
from tests.support.foreign_jobs import TFJOBS

MANIFEST = conversion.start_conversion(TFJOBS["workers"], "kubeflow.org/v1")[0].manifest


def test_names_and_limits_are_the_operators():
    assert (MANIFEST["apiVersion"], MANIFEST["kind"]) == (constants.API_VERSION, constants.KIND)
    assert replicas.REPLICAS_MAX == constants.REPLICAS_MAX
    assert fields.INTEGER_MAX == constants.SECONDS_MAX
    assert (pod_template.PORT, pod_template.DEFAULT_PORT) == (constants.PORT_NAME, constants.DEFAULT_PORT)
    assert pod_template.MAIN == constants.DEFAULT_MAIN_CONTAINER
    assert set(conversion.ROLES) == set(Role)
    assert set(replicas.RESTART_NOTES) == set(replicas.EVALUATOR_NOTES) == set(RestartPolicy)


def test_a_name_is_what_the_api_server_takes():
    rules = " ".join(rule.rule for rule in JOB_RULES)
    assert f"size(self.metadata.name) <= {conversion.NAME_MAX}" in rules
    assert f"'^{conversion.NAME.pattern}$'" in rules


def test_the_clean_up_policies_are_the_same():
    assert {job.removeprefix("clean-up ") for job in TFJOBS if job.startswith("clean-up ")} == set(CleanPodPolicy)
