# Two commands do everything: `make demo` and `make test`.
# `make paper-synthetic` is the paper's evaluation without the paper's data: half an hour on two cores, results/report.md.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test lint types quick slow paper-synthetic fuzz oldest audit clean

demo: $(READY)  ## set up, and reconstruct a walk through a made-up room
	$(BIN)/recal3r demo --output out/demo --overwrite

test: lint types quick  ## set up, and run lint, types and the quick tests

# Two at a time, but one network of full size at a time: each takes 9 GB.
slow: $(READY)  ## full-size networks, long streams, guided fuzzing: a quarter of an hour on two cores
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow -n 2 --dist loadgroup

# Scenes and frames a scene; the defaults take less than half an hour on two cores. Stopped, it goes on where it was.
SCENES ?= 6
FRAMES ?= 400
ROOMS := results/rooms-$(SCENES)x$(FRAMES)

paper-synthetic: $(READY)  ## all rules and ablations on held-out made-up rooms, with the tiny network
	$(BIN)/recal3r data prepare synthetic $(ROOMS) --scenes $(SCENES) --frames $(FRAMES) --workers 2
	OMP_NUM_THREADS=1 $(BIN)/recal3r eval run recipes/synthetic.py tiny results/synthetic-$(SCENES)x$(FRAMES) \
		--data synthetic=$(ROOMS) --devices cpu cpu --no-keep

FUZZ ?= 60
fuzz: $(READY)  ## guided searches for bytes that our readers do not survive: FUZZ seconds a reader
	$(BIN)/python -m pip install --quiet "atheris>=3"
	RECAL3R_FUZZ=$(FUZZ) $(BIN)/python -m pytest -m slow -n 2 tests/fuzz

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/pyright

# One thread for each of the workers: small networks gain nothing from more.
quick: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n auto

oldest:  ## the tests of the core with the oldest of what it depends on: a few gigabytes to download
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --constraint constraints-oldest.txt --editable '.[arrow,eval,video]' "pytest>=8.2" "pytest-xdist>=3.6" "hypothesis>=6.100"
	# Dynamo of torch 2.6 cannot trace the test that a step is one graph (it makes a frozenset of an enum).
	OMP_NUM_THREADS=1 .venv-oldest/bin/python -m pytest -m "not slow" -n auto -k "not one_graph" tests/engine tests/geometry tests/golden tests/rules

audit: $(READY)  ## known holes in what is installed; asks a server
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/python -m pip_audit --strict --requirement constraints.txt --no-deps --disable-pip

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

clean:  ## forget the environment
	rm -rf .venv
