"""What `helm test` runs in the operator's image: it asks the operator for metrics, and the API server about two jobs.

Both jobs are dry runs: nothing is created. The environment says where: API, NAMESPACE, ACCOUNT (a folder with token and
ca.crt), and METRICS, which may be empty.
"""

import http
import json
import os
import pathlib
import ssl
import sys
import urllib.error
import urllib.request

SECONDS = 10.0


def main() -> int:
    metrics = os.environ["METRICS"]
    if metrics:
        with urllib.request.urlopen(metrics, timeout=SECONDS) as answer:
            if b"leader_election_master_status" not in answer.read():
                return said(1, f"{metrics} is not answered by the operator")
        print(f"the operator answers at {metrics}")
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "example.org/hello:1"}]}}
    code, message = create({"worker": {"replicas": 2, "template": template}})
    if code != http.HTTPStatus.CREATED:
        return said(1, f"the API server refuses a job that is right ({code}): {message}")
    code, message = create({"ps": {"replicas": 1, "template": template}})
    if code != http.HTTPStatus.UNPROCESSABLE_ENTITY:
        return said(1, f"the API server takes a job that is wrong ({code}): is the CRD that of this chart?")
    return said(0, f"the API server takes a job that is right, and says of one that is wrong: {message}")


def create(roles: dict[str, object]) -> tuple[int, str]:
    """Create a job by a dry run; returns the HTTP status, and the server's message."""
    job = {
        "apiVersion": "dtj.dev/v1alpha1",
        "kind": "DistributedTrainingJob",
        "metadata": {"name": "helm-test"},
        "spec": {"replicaSpecs": roles},
    }
    account = pathlib.Path(os.environ["ACCOUNT"])
    path = f"/apis/dtj.dev/v1alpha1/namespaces/{os.environ['NAMESPACE']}/distributedtrainingjobs"
    request = urllib.request.Request(
        f"{os.environ['API']}{path}?dryRun=All&fieldValidation=Strict",
        data=json.dumps(job).encode(),
        headers={
            "Authorization": f"Bearer {(account / 'token').read_text().strip()}",
            "Content-Type": "application/json",
        },
    )
    tls = ssl.create_default_context(cafile=str(account / "ca.crt"))
    try:
        with urllib.request.urlopen(request, timeout=SECONDS, context=tls) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error).get("message", "")


def said(code: int, words: str) -> int:
    print(words)
    return code


if __name__ == "__main__":
    sys.exit(main())
