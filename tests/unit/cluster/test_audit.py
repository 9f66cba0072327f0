"""The audit log is parsed and counted."""

import json

from e2e.cluster.audit import AuditLog


def entry(verb: str, resource: str, agent: str = "dtj-operator/1", **target: str) -> str:
    return json.dumps(
        {
            "stageTimestamp": "2026-01-02T03:04:05.678901Z",
            "userAgent": agent,
            "user": {"username": "system:serviceaccount:dtj:operator"},
            "verb": verb,
            "objectRef": {"resource": resource, **target},
            "responseStatus": {"code": 200},
        }
    )


def test_requests_of_one_user_agent_are_counted_by_verb_and_resource(tmp_path):
    log = AuditLog(tmp_path / "audit.log")
    lines = [entry("create", "pods"), entry("create", "pods"), entry("patch", "jobs", subresource="status")]
    log.path.write_text("\n".join([*lines, entry("get", "pods", "kubectl/1"), ""]))
    assert log.count(user_agent="dtj-operator") == {"create pods": 2, "patch jobs/status": 1}


def test_a_mark_leaves_out_what_was_before(tmp_path):
    log = AuditLog(tmp_path / "audit.log")
    assert log.mark() == 0
    log.path.write_text(entry("create", "pods") + "\n")
    mark = log.mark()
    with log.path.open("a") as file:
        file.write(entry("delete", "pods", name="a") + "\n")
    assert [(request.verb, request.name, request.writes) for request in log.since(mark)] == [("delete", "a", True)]


def test_a_line_that_is_being_written_is_left_for_later(tmp_path):
    log = AuditLog(tmp_path / "audit.log")
    log.path.write_text(entry("create", "pods") + "\n" + entry("create", "pods")[:50])
    assert len(log.since()) == 1


def test_a_request_to_no_resource_is_named_by_its_path(tmp_path):
    log = AuditLog(tmp_path / "audit.log")
    raw = json.loads(entry("get", "x")) | {"objectRef": {}, "requestURI": "/apis"}
    log.path.write_text(json.dumps(raw) + "\n")
    assert log.count() == {"get /apis": 1}
