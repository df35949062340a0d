# One word for each thing one does here; `make help` lists them.
BIN := .venv/bin
.DEFAULT_GOAL := help
# Kept bytecode: linkqual starts several processes a run, the tests hundreds of runs, and each would compile everything anew.
export PYTHONDONTWRITEBYTECODE :=
.PHONY: help setup demo test check format lint types floors fast lab wheel bench soak fuzz lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## make .venv and install what is missing (free when nothing changed)
	@scripts/bootstrap.sh

demo: setup ## qualify the embedded line with real packets and write a report
	@$(BIN)/linkqual test --profile training --quick

test: setup ## everything: checks of structure, fast tests, real packets in namespaces
	@$(BIN)/pytest -q -n 3 --dist worksteal -m "not quiet"
	@$(BIN)/pytest -q -m quiet $$(grep -rl --include='test_*.py' 'mark\.quiet' tests)

check: setup format lint types floors fast ## what a commit must pass

format: setup ## is the code formatted
	@$(BIN)/ruff format --check .

lint: setup ## ruff's opinion
	@$(BIN)/ruff check .

types: setup ## mypy --strict over the whole package
	@scripts/typeroot.sh
	@cd .typeroot && MYPYPATH=. ../$(BIN)/mypy --config-file ../pyproject.toml --cache-dir ../.mypy_cache -p linkqual

floors: setup ## which module may import which
	@$(BIN)/pytest -q tests/test_floors.py

fast: setup ## tests that need no namespace
	@$(BIN)/pytest -q -n 2 --dist worksteal -m "not lab"

lab: setup ## tests with real packets in network namespaces
	@$(BIN)/pytest -q -m lab

wheel: setup ## build the wheel and run the fast tests against it
	@scripts/wheel.sh

bench: setup ## the engine against its peers (see docs/benchmarks.md)
	@$(BIN)/python benchmarks/engine.py

soak: setup ## an hour on two bad lines, every count compared with the lines' own (see docs/benchmarks.md)
	@$(BIN)/python benchmarks/soak.py

fuzz: setup ## every decoder under atheris, 20 s each (scripts/fuzz.sh --seconds N NAME for one)
	@scripts/fuzz.sh

lock: setup ## compile requirements.lock anew
	@$(BIN)/python -m pip install -q uv
	@UV_PYTHON_DOWNLOADS=never $(BIN)/python -m uv pip compile -q pyproject.toml --extra dev --universal --generate-hashes \
		--no-emit-index-url --no-emit-find-links --no-annotate --no-header --python-version 3.11 -o requirements.lock

clean: ## remove what was built (keeps runs/)
	@rm -rf .venv .typeroot build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
