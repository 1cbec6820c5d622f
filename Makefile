# One command per action; each does its own set-up (tools/setup) and is quick when there is nothing to do.

# The system's Python environment must not leak into .venv.
unexport PYTHONPATH PYTHONHOME

# .venv fills (network) while Bazel compiles (processor).
MAKEFLAGS += --jobs=2

export BAZEL ?= bazel
# An empty folder shows what a fresh machine does: FARANDOLE_CACHE=/dir make test, in a fresh clone.
export FARANDOLE_CACHE
DISK_CACHE := $(if $(FARANDOLE_CACHE),--disk_cache=$(FARANDOLE_CACHE)/bazel)
PRODUCTS := //deploy/cli:farandole //worker:libfarandole.so //worker:libfarandole_gloo.so //sdk/tensorflow:libfarandole_tensorflow.so //sdk/jax:libfarandole_jax.so //sdk/mxnet:libfarandole_mxnet.so
# Programs and libraries that tests run beside the products.
PRODUCTS += //server/testing:crowd //server/testing:neighbours //worker/device/fake:fake_libraries.so //tests/cpp:checks //tests/cpp:client_tool //tests/cpp:elastic_stepping //tests/cpp:hanging //tests/cpp:overhead //tests/cpp:stepping

.PHONY: help system browser aarch64 soak-packages peers tools docs-tools docs web python tensorflow jax mxnet go build install wheel wheel-tools demo test test-gpu bench-gpu sim growth soak chaos bench bench-quick bench-beside bench-pages bench-sharing bench-timeline bench-measurements bench-load bench-elastic fmt fmt-check clean

help:
	@echo "make build    compile the coordinator and launcher (farandole) and the worker library"
	@echo "make install  build, then make .venv with farandole, torch and the command .venv/bin/farandole"
	@echo "              make install PREFIX=/usr/local (and DESTDIR): the command, the libraries and the C++ SDK there, too"
	@echo "make wheel    install, then pack all of it into one wheel, dist/farandole-*.whl"
	@echo "make demo     install, then train a small CNN on Fashion-MNIST with 2 workers; prints the address of its dashboard"
	@echo "              make demo KEEP=1: the dashboard stays after the job, until Ctrl-C"
	@echo "make test     install, then run every test; the last line counts them"
	@echo "              FARANDOLE_CACHE=/empty/folder make test, in a fresh clone: with no cache of an earlier build"
	@echo "              make test ONLY=worker/kernels: what tests one folder (or several, separated by spaces)"
	@echo "make docs     build the documentation's site, with search, in build/site"
	@echo "make soak     install, then what takes too long for each change"
	@echo "make sim      one simulated job: make sim SEED=7"
	@echo "make chaos    install, then real elastic training beside random kills: make chaos SEED=7"
	@echo "make bench    install, then measure beside Open MPI and torch.distributed, some ten minutes; writes docs/benchmarks"
	@echo "make test-gpu install, then what wants a GPU, on this machine's"
	@echo "make bench-gpu install, then measure beside torch.distributed on the GPUs of this machine; writes docs/benchmarks/gpu.md"
	@echo "make bench-quick  a part of that, within two minutes; prints its tables"
	@echo "make bench-beside CHECKOUT=DIR  this checkout beside another one, in which make install has run"
	@echo "make bench-elastic  measure losses and joins of elastic jobs beside torchrun, some fifteen minutes; writes docs/benchmarks/elastic.md"
	@echo "make bench-pages  measure what 300 open pages of the dashboard cost a job; writes docs/benchmarks/pages.md"
	@echo "make bench-sharing  measure how much a tenant feels of another one's flood; writes docs/benchmarks/neighbours.md"
	@echo "make bench-timeline  measure what a job's timeline costs its collectives, within two minutes; writes docs/benchmarks/timeline.md"
	@echo "make bench-measurements  measure what measurements and the flight recorder cost, within ten minutes; writes docs/benchmarks/measurements.md"
	@echo "make bench-load  let greedy and hostile tenants loose on a coordinator for an hour; writes docs/benchmarks/load.md"
	@echo "make growth   write docs/growth.md anew: what a job costs by its number of ranks"
	@echo "make fmt      format C++, Python and Go (make fmt-check only looks)"
	@echo "make clean    remove what make made in this checkout"

system:
	@tools/setup system

browser: system
	@tools/setup browser

aarch64: system
	@tools/setup aarch64

soak-packages: system
	@tools/setup soak

peers: system
	@tools/setup peers

tools: system
	@tools/setup tools

python: system
	@tools/setup python

go: system
	@tools/setup go
	@tools/go_stubs

docs-tools: system
	@tools/setup docs

tensorflow: system
	@tools/setup tensorflow

jax: system
	@tools/setup jax

mxnet: system
	@tools/setup mxnet

wheel-tools: system
	@tools/setup wheel

web: system
	@tools/setup web

build: web
	@$(BAZEL) build $(DISK_CACHE) $(PRODUCTS)

install: build python
	@tools/install
	@$(if $(DESTDIR)$(PREFIX),tools/install-prefix "$(DESTDIR)$(or $(PREFIX),/usr/local)")

wheel: install wheel-tools go
	@tools/wheel

demo: install
	@tools/demo $(if $(KEEP),--keep)

test: install tensorflow jax mxnet go browser aarch64 wheel-tools docs-tools
	@tools/test $(ONLY:%=--only %)

docs: docs-tools
	@tools/docs

soak: install tensorflow jax mxnet go browser aarch64 soak-packages wheel-tools
	@tools/test --soak

# One simulation, told line by line, or one play of chaos; its seed is what a failed test has printed.
SEED ?= 1
sim: web
	@$(BAZEL) run $(DISK_CACHE) --ui_event_filters=-info,-stdout,-stderr --noshow_progress //tests/simulation:simulation_test -- --seed=$(SEED)

chaos: install
	.venv/bin/python -m pytest -q tests/integration/test_chaos.py --seeds $(SEED)

# Tests that need a GPU: with this checkout, or with the wheel alone by tests/gpu/run.py.
test-gpu: install
	.venv/bin/python tests/gpu/run.py

bench-gpu: install
	.venv/bin/python tests/gpu/bench.py --write docs/benchmarks/gpu.md

bench: install peers go tensorflow jax mxnet
	.venv/bin/python tests/bench/bench.py

bench-quick: install peers go
	.venv/bin/python tests/bench/bench.py --quick

# Beside another checkout, in which `make install` has run: has a change made something slower?
bench-beside: install
	.venv/bin/python tests/bench/beside.py "$(CHECKOUT)"

bench-pages: install
	.venv/bin/python tests/bench/pages.py

bench-sharing: install
	.venv/bin/python tests/bench/sharing.py

bench-timeline: install
	.venv/bin/python tests/bench/timeline.py

# Beside a build without them.
bench-measurements: install
	.venv/bin/python tests/bench/unmeasured.py

# Takes an hour.
bench-load: install
	.venv/bin/python tests/bench/load.py

bench-elastic: install
	.venv/bin/python tests/bench/elastic.py

growth: web
	@$(BAZEL) run $(DISK_CACHE) --ui_event_filters=-info,-stdout,-stderr --noshow_progress //tests/simulation:growth -- $(CURDIR)/docs/growth.md

fmt: tools go
	@tools/fmt

fmt-check: tools go
	@tools/fmt --check

clean:
	@if command -v $(BAZEL) >/dev/null; then $(BAZEL) clean; fi
	rm -rf .venv .venv-tensorflow .venv-jax .venv-mxnet build dist sdk/python/farandole/_lib sdk/python/farandole/_native*.so .pytest_cache .ruff_cache
