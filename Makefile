# Two commands set everything up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
EXTRAS := torch,report,tune,privacy,dev
# Packages are installed uncompiled, which halves the time: modules are compiled as they are imported, and that is kept.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test pytest slow-test deploy-test ray-test lint fuzz published screenshots clean
.DEFAULT_GOAL := demo

demo: .venv/installed
	$(BIN)/python -m fedrec.cli.demo

test: .venv/installed
	$(MAKE) --no-print-directory --jobs 2 lint pytest

pytest: .venv/installed
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not published and not slow and not deploy and not ray"

slow-test: .venv/installed
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

# Flower holds other packages back, so these tests have an environment of their own.
deploy-test: .venv-deploy/installed
	.venv-deploy/bin/python -m pytest -n 0 -m "deploy or not slow" tests/deploy

.venv-deploy/installed: pyproject.toml constraints.txt
	test -x .venv-deploy/bin/python || $(PYTHON) -m venv .venv-deploy
	.venv-deploy/bin/python -m pip install --quiet --no-compile --constraint constraints.txt --editable ".[torch,dev,flower]"
	touch $@

# Ray is large, so these tests have an environment of their own as well.
ray-test: .venv-ray/installed
	.venv-ray/bin/python -m pytest -n 0 -m ray tests/ray

.venv-ray/installed: pyproject.toml constraints.txt
	test -x .venv-ray/bin/python || $(PYTHON) -m venv .venv-ray
	.venv-ray/bin/python -m pip install --quiet --no-compile --constraint constraints.txt --editable ".[torch,dev,ray]"
	touch $@

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fuzz: .venv/installed
	$(BIN)/python -m pytest -n 2 --hypothesis-profile fuzz tests/parity tests/evaluate/test_ranking.py

published: .venv/installed
	$(BIN)/python -m pytest -m published

screenshots: demo
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable ".[browser]"
	$(BIN)/python benchmarks/screenshots.py

.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable ".[$(EXTRAS)]"
	touch $@

clean:
	rm -rf .venv .venv-deploy .venv-ray .mypy_cache .ruff_cache .pytest_cache
