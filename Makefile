# `make help` lists the targets. Each target first makes what it needs and keeps it in the cache (~/.cache/dtj).

SHELL := /bin/sh
# Debian's own Python if it can make virtual environments: the images use it too, and it is built with profile-guided
# optimization. The first Python on the PATH often is not, and is about 20 % slower.
PYTHON ?= $(shell /usr/bin/python3.11 -c 'import ensurepip, venv' 2>/dev/null && echo /usr/bin/python3.11 || echo python3.11)
export PYTHONPATH := operator:trainer-image:client:.
# Characters that a terminal cannot show are replaced.
export PYTHONIOENCODING := $(shell echo "$${PYTHONIOENCODING%%:*}:replace")
.DEFAULT_GOAL := help

# The interpreter of the virtual environment. It is created on first use and found again by the hash of requirements/dev.txt.
define in_environment
@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 is missing ($(PYTHON)): install it with 'apt-get install python3.11 python3-venv', or call make with PYTHON=<path>." >&2; exit 1; }; \
python=$$($(PYTHON) tools/environment.py) && exec "$$python"
endef

WHAT ?= tests/unit

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: check
check: ## lint, type check and quick tests, in under two minutes
	$(in_environment) -m tools.stages check

.PHONY: test
test: ## everything: lint, unit, faults, contract, trainer and end-to-end tests
	$(in_environment) -m tools.stages test

.PHONY: unit
unit: ## run some tests: make unit WHAT=tests/unit/test_contract.py
	$(in_environment) -m pytest -q $(WHAT)

.PHONY: matrix
matrix: ## quick tests of the trainer with the oldest and newest Keras and other Pythons (PYTHONS="<paths>")
	$(in_environment) -m tools.matrix $(PYTHONS)

.PHONY: lint
lint: ## ruff, format check, mypy and import-linter
	$(in_environment) -m tools.stages lint

.PHONY: fmt
fmt: ## format the code and apply the linter's safe fixes
	$(in_environment) -m tools.fmt

.PHONY: generate
generate: ## write the CRD, the chart's README, and the pictures and tables of the docs, from the code
	$(in_environment) -m tools.crds
	$(in_environment) -m tools.chart_readme
	$(in_environment) -m tools.pictures
	$(in_environment) -m tests.corpus.table

.PHONY: docs
docs: ## build the site of the docs into build/site; DOCS_ARGS=serve shows it on this machine
	$(in_environment) -m tools.site $(DOCS_ARGS)

.PHONY: manifests
manifests: ## write plain manifests for kubectl and Kustomize from the Helm chart
	$(in_environment) -m tools.manifests

.PHONY: images
images: ## build both container images, with docker or buildah
	$(in_environment) -m e2e.cluster.images build

.PHONY: publish-images
publish-images: ## build both images and push them to the registry REGISTRY
	$(in_environment) -m tools.publish images

.PHONY: publish-chart
publish-chart: ## push the Helm chart to the registry REGISTRY, for the images published there
	$(in_environment) -m tools.publish chart

.PHONY: publish-signatures
publish-signatures: ## sign what was published, with cosign
	$(in_environment) -m tools.publish signatures

.PHONY: demo
demo: ## train on a two-node cluster on this machine and kill a worker (DEMO_ARGS=--help)
	$(in_environment) -m e2e.demo $(DEMO_ARGS)

.PHONY: cluster
cluster: ## start the test cluster with both images (CLUSTER_ARGS=--help)
	$(in_environment) -m e2e.cluster up --images $(CLUSTER_ARGS)

.PHONY: cluster-down
cluster-down: ## stop the test cluster, also after a crash
	$(in_environment) -m e2e.cluster down $(CLUSTER_ARGS)

.PHONY: e2e
e2e: ## run the end-to-end scenarios on the test cluster
	$(in_environment) -m tools.stages e2e

.PHONY: e2e-kind
e2e-kind: ## run the end-to-end scenarios on a kind cluster
	$(in_environment) -m tools.stages e2e-kind

.PHONY: faults
faults: ## crash, delay or refuse each write of the operator; results in build/results/faults.json
	$(in_environment) -m tests.faults $(FAULT_ARGS)

.PHONY: corpus
corpus: ## run real Keras programs changed by one line, compare with Keras (CORPUS_ARGS=--help)
	$(in_environment) -m tests.corpus $(CORPUS_ARGS)

.PHONY: equality
equality: ## train each kind of loss on any replicas, and compare the weights with Keras' (EQUALITY_ARGS="--keep")
	$(in_environment) -m tests.equality $(EQUALITY_ARGS)

.PHONY: bench
bench: ## run all benchmarks; results in build/results
	$(in_environment) -m bench

.PHONY: bench-operator
bench-operator: ## benchmark the operator beside a bare client (BENCH_ARGS="--jobs 200")
	$(in_environment) -m bench.operator $(BENCH_ARGS)

.PHONY: bench-trainer
bench-trainer: ## benchmark the training loop beside a manually written one and Keras fit (BENCH_ARGS="--keep")
	$(in_environment) -m bench.trainer $(BENCH_ARGS)
