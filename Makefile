# One command per action; each does its own set-up (tools/setup) and is quick when there is nothing to do.

# The system's Python environment must not leak into .venv.
unexport PYTHONPATH PYTHONHOME

export BAZEL ?= bazel
PRODUCTS := //deploy/cli:farandole //worker:libfarandole.so

.PHONY: help build install demo test fmt fmt-check clean

help:
	@echo "make build    compile the coordinator and launcher (farandole) and the worker library"
	@echo "make install  build, then make .venv with farandole, torch and the command .venv/bin/farandole"
	@echo "make demo     install, then train a small CNN on Fashion-MNIST with 2 workers"
	@echo "make test     install, then run every test; the last line counts them"
	@echo "make fmt      format C++ and Python (make fmt-check only looks)"
	@echo "make clean    remove what make made in this checkout"

build:
	@tools/setup system
	@$(BAZEL) build $(PRODUCTS)

install: build
	@tools/setup python
	@tools/install

demo: install
	.venv/bin/farandole run -np 2 .venv/bin/python examples/fashion_mnist.py

test: install
	@tools/setup tools
	@tools/test

fmt:
	@tools/setup system
	@tools/fmt

fmt-check:
	@tools/setup system
	@tools/fmt --check

clean:
	@if command -v $(BAZEL) >/dev/null; then $(BAZEL) clean; fi
	rm -rf .venv build sdk/python/farandole/_lib sdk/python/farandole/_native*.so .pytest_cache .ruff_cache
