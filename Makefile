# Two commands do everything: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test lint types quick slow clean

demo: $(READY)  ## set up, and reconstruct a walk through a made-up room
	$(BIN)/recal3r demo --output out/demo --overwrite

test: lint types quick  ## set up, and run lint, types and the quick tests

slow: $(READY)  ## full-size networks and long streams: minutes, and 8 GB of memory
	$(BIN)/python -m pytest -m slow

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/pyright

# One thread for each of the workers: small networks gain nothing from more.
quick: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n auto

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

clean:  ## forget the environment
	rm -rf .venv
