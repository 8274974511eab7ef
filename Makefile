# Everything a developer does, by name. `make help` lists it. Only Python 3.11+, make and the package registries are
# assumed; what needs more has a target of its own that says what it does. PYTHON= is looked for on PATH if not given.
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# What the demo needs is part of what developers need.
DEMO   := $(if $(wildcard $(STAMP)),$(STAMP),$(VENV)/.demo)
SET_UP  = @$(firstword $(foreach each,python3 $(PYTHON) python3.14 python3.13 python3.12 python3.11,$(shell command -v $(each))) python3) -m tests.environment
DIST   := dist
PYTEST_ARGS ?= -q -n auto --dist loadfile

# Each process of a test or benchmark would compile its modules anew where the environment forbids to write bytecode.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX ?= $(CURDIR)/$(VENV)/bytecode

.DEFAULT_GOAL := help
.PHONY: help setup demo controlplane cluster cluster-down cluster-parts netns promtool chromium screenshots helm h2spec image containers istiod mesh older keda full bare test plugin e2e chaos check fix simulate walk mutants fuzz bench bench-peers render docs release bundle sign publish clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make .venv with everything that demo, test and bench need

$(STAMP): pyproject.toml constraints.txt
	$(SET_UP) dev $(PYTHON)
	@touch $@

$(VENV)/.demo: pyproject.toml constraints.txt
	$(SET_UP) demo $(PYTHON)
	@touch $@

demo: $(DEMO)  ## recorded autoscalers through a real Envoy and the gate to a stand-in for an API server (KEEP=1: the page stays open)
	@KEEP=$(KEEP) $(BIN)/python -m extauthz.demo

controlplane: setup  ## build or find etcd, kube-apiserver, kubectl and the autoscalers (tests/controlplane/README.md)
	@$(BIN)/python -m tests.controlplane.build

netns: setup  ## install iptables and iproute2 (Debian's, as root or with sudo) where missing: tests with a network of their own need them
	@$(BIN)/python -m tests.controlplane.netns

promtool: setup  ## install Debian's prometheus (as root or with sudo) where promtool is missing: it tests metrics, alerts and dashboard
	@$(BIN)/python -m tests.observability.promtool

chromium: setup  ## install Debian's Chromium (as root or with sudo) where missing: tests of the page look at it there
	@$(BIN)/python -m tests.page.chromium

screenshots: chromium  ## take the pictures of docs/page.md anew
	@SCREENSHOTS=docs/pictures EXTAUTHZ_REQUIRE=chromium $(BIN)/python -m pytest -q tests/page/test_pictures.py

helm: setup  ## build or find Helm and actionlint, for the tests of charts/ and .github/ and for `make render` (Go builds them once; a minute or four)
	@$(BIN)/python -m tests.controlplane.build --only helm actionlint

h2spec: setup  ## build or find h2spec, which asks the gRPC server every rule of HTTP/2 (Go builds it once; a minute or two)
	@$(BIN)/python -m tests.controlplane.build --only h2spec

cluster: cluster-parts  ## a cluster of one node on this machine: kubelet, containers, Services, DNS, metrics and the gate's image (as root; tests/cluster/README.md)
	@$(BIN)/python -m tests.cluster.make up

cluster-down: setup  ## take it away
	@$(BIN)/python -m tests.cluster.make down

cluster-parts: controlplane helm  ## build or install what it needs (tests/cluster/README.md has times and sizes)
	@$(BIN)/python -m tests.cluster.make parts

istiod: setup netns  ## the same and istiod, which the tests of istio/ need; first `make netns`
	@$(BIN)/python -m tests.controlplane.build istiod

mesh: cluster-parts istiod  ## build what tests of the cluster bring besides: Istio's agent, Knative's controllers, load, a registry (tests/cluster/README.md)
	@$(BIN)/python -m tests.controlplane.build --only pilot-agent knative-controller knative-webhook knative-activator queue-proxy hey registry

older: istiod  ## the same, and istiod, Knative's autoscaler and Kubernetes' judgement of definitions of older releases
	@$(BIN)/python -m tests.controlplane.build istiod istiod-1.30 autoscaler-v0.42.2 decider-v0.42.2 definitions-1.30

full: older keda h2spec containers mesh promtool chromium bare  ## all tests with every part required: CI has all but older releases, KEDA, most of the cluster and the peers
	@EXTAUTHZ_ORDERS=all EXTAUTHZ_HPAS=240 EXTAUTHZ_SCRIPTS=400 EXTAUTHZ_REQUESTS=8000 EXTAUTHZ_REQUIRE=controlplane,istiod,istiod-1.30,pilot-agent,knative-controller,knative-webhook,knative-activator,queue-proxy,hey,registry,autoscaler-v0.42.2,decider-v0.42.2,definitions-1.30,keda-operator,keda-adapter,helm,actionlint,h2spec,promtool,chromium,containers,image,cluster,wheel,peers $(MAKE) --no-print-directory test PYTEST_ARGS="$(PYTEST_ARGS)"

bare: setup  ## make demo and make test on a new Debian 13 and sid, by a person without root (as root; BARE="sid --targets demo")
	@$(BIN)/python -m tests.bare $(BARE)

keda: setup  ## build or find KEDA's operator and adapter, which its end-to-end tests need (some 15 minutes and 3 GB, on two cores)
	@$(BIN)/python -m tests.controlplane.build --only keda-operator keda-adapter

image: setup  ## build the gate's image: with Docker, or podman, which is installed where neither is (docs/internals/image.md)
	@$(BIN)/python -m tests.compose.prepare image

containers: controlplane  ## what the tests of docker-compose.yml need: podman if there is no Docker, images (tests/compose/README.md)
	@$(BIN)/python -m tests.compose.prepare

test: setup  ## all tests, on all cores, the real Envoy's among them; with the real control plane's if it is built
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

plugin: setup  ## install the example policies (policy-plugin, memory-pressure) from their folders, and run their tests
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps ./examples/policy-plugin ./examples/memory-pressure
	@$(BIN)/python -m pytest -q examples/policy-plugin/tests examples/memory-pressure/tests

e2e: controlplane  ## real autoscalers through the real Envoy and the gate against a real API server
	@EXTAUTHZ_REQUIRE=controlplane $(BIN)/python -m pytest tests/e2e tests/controlplane $(PYTEST_ARGS)

chaos: controlplane  ## three gates, 50 autoscalers, everything fails in turn: is any quota ever exceeded? (CHAOS_ARGS="--seconds 600")
	@$(BIN)/python -m tests.chaos $(CHAOS_ARGS)

simulate: setup  ## an hour of simulated worlds with every fault; a new stretch of seeds each day
	@$(BIN)/python -m tests.worlds --minutes $(or $(MINUTES),60) --steps 60 --seed $$(date +%Y%m%d)00000

walk: setup  ## how far one reads to follow a request through the gate: stays, files, returns (SHOW=check: where each begins)
	@$(BIN)/python -m tests.walk $(SHOW)

mutants: setup  ## change the ledger's code in 64 places, one at a time: does any test or simulated world notice? (MUTANTS=0: in all)
	@$(BIN)/python -m tests.mutants --mutants $(or $(MUTANTS),64) $(MUTANTS_ARGS)

check: setup  ## ruff, strict types, import contracts, doc examples
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m pytest -q --doctest-modules extauthz/core

fix: setup  ## let ruff mend what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

fuzz: setup  ## what strangers may write: costly bodies, frames, answers of sources, questions, raw bytes (FUZZ_SECONDS=60, FUZZ_SEED=…)
	@$(BIN)/python -m tests.fuzz

bench: setup  ## ratios against a floor measured beside them; writes bench/out/
	@$(BIN)/python -m bench

bench-peers: controlplane  ## the gate beside others in one run: OPA's evaluator, a bare Go handler, ResourceQuota (docs/internals/peers.md; ONLY=growth)
	@$(BIN)/python -m bench.peers $(addprefix --only ,$(ONLY))

render: helm  ## write what is rendered in envoy/, istio/, charts/ and deploy/ anew: each file says in its first line what prints it
	@$(BIN)/python -m tests.rendering

docs: setup  ## the pages of docs/ as a site, in site/; links that lead nowhere are errors
	@$(BIN)/python -m mkdocs build --strict --config-file tools/mkdocs.yml

release: helm  ## sdist, wheel, chart, plugin, image (where a container engine is), list of packages and checksums, in dist/ (docs/internals/release.md)
	@$(BIN)/python -m tools.release --into $(DIST)

bundle: helm  ## the same as one archive, dist/bundle.tar.gz, for where no registry but your own is reached (docs/internals/release.md)
	@$(BIN)/python -m tools.release --into $(DIST) --image
	@cd $(DIST) && tar -czf bundle.tar.gz *

sign: setup  ## have cosign sign the checksums in dist/: without a key as the workflow on a tag does, or by COSIGN_KEY
	@$(BIN)/python -m tools.release.publish sign

publish: helm  ## make the release of this tag from dist/, and push chart and image where REGISTRY names one (the workflow on a tag)
	@$(BIN)/python -m tools.release.publish publish

clean:  ## remove what the targets above have made
	rm -rf $(VENV) build dist site bench/out *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
