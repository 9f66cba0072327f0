# The verbs of the project. `make help` lists them; each makes what it needs first and keeps it in the cache.

SHELL := /bin/sh
# Debian's own Python, if it can make environments: the images have it too, and it is compiled with profiles. What stands
# first on the PATH often is not, and needs a fifth longer for everything.
PYTHON ?= $(shell /usr/bin/python3.11 -c 'import ensurepip, venv' 2>/dev/null && echo /usr/bin/python3.11 || echo python3.11)
export PYTHONPATH := operator:trainer-image:client:.
# A terminal that lacks a character gets another in its place.
export PYTHONIOENCODING := $(shell echo "$${PYTHONIOENCODING%%:*}:replace")
.DEFAULT_GOAL := help

# The environment's interpreter: made on the first use, found again by the hash of the requirements.
define in_environment
@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 is missing ($(PYTHON)): install it with 'apt-get install python3.11 python3-venv', or call make with PYTHON=<path>." >&2; exit 1; }; \
python=$$($(PYTHON) tools/environment.py) && exec "$$python"
endef

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## a training job on a real two-node cluster, from nothing (options: DEMO_ARGS="--help")
	$(in_environment) -m e2e.demo $(DEMO_ARGS)

.PHONY: test
test: ## everything: linters, unit, faults, contract, trainer, end to end
	$(in_environment) -m tools.stages test

.PHONY: check
check: ## the quick part of it, in under two minutes
	$(in_environment) -m tools.stages check

.PHONY: e2e
e2e: ## the scenarios on the embedded cluster
	$(in_environment) -m tools.stages e2e

.PHONY: faults
faults: ## crashes, lags and refusals at every write of the operator, on both API servers (build/results/faults.json)
	$(in_environment) -m tests.faults

.PHONY: bench
bench: ## measurements; results in build/results
	$(in_environment) -m bench

.PHONY: bench-operator
bench-operator: ## the operator beside a bare client on a real API server (options: BENCH_ARGS="--jobs 200")
	$(in_environment) -m bench.operator $(BENCH_ARGS)

.PHONY: bench-trainer
bench-trainer: ## the trainer's loop beside a hand-written one and Keras fit (options: BENCH_ARGS="--keep")
	$(in_environment) -m bench.trainer $(BENCH_ARGS)

.PHONY: cluster
cluster: ## bring up the embedded cluster, images and all (options: CLUSTER_ARGS)
	$(in_environment) -m e2e.cluster up --images $(CLUSTER_ARGS)

.PHONY: cluster-down
cluster-down: ## take it down, also after a crash
	$(in_environment) -m e2e.cluster down $(CLUSTER_ARGS)

.PHONY: images
images: ## build both images (docker, or buildah where there is no docker)
	$(in_environment) -m e2e.cluster.images build

.PHONY: pictures
pictures: ## draw what kubectl shows of jobs into docs/reference/pictures
	$(in_environment) -m tools.pictures

.PHONY: crds
crds: ## write the CRD from the resource's model into crds/ and the chart
	$(in_environment) -m tools.crds

.PHONY: fmt
fmt: ## format, and mend what the linter can mend
	$(in_environment) -m tools.fmt
