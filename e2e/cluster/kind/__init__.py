"""kind: a cluster in docker containers.

Where docker runs it is used as it is. Where it does not, on Debian as root, `docker_daemon` starts Debian's docker in a
network namespace of its own, and `node_image` makes the image that kind's nodes run.
"""

from e2e.cluster.kind.cluster import KindCluster, attach, configuration, programs, require_docker, up

__all__ = ["KindCluster", "attach", "configuration", "programs", "require_docker", "up"]
