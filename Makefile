# Two commands: `make lab` opens the course, `make test` runs every test. Both set up .venv when it is missing.
# Beside them `make bench` prints timings beside peers, and `make slides` builds the lecture decks.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: lab test bench slides

lab:
	@$(PYTHON) course_lib/install.py
	@$(BIN)/course lab

test:
	@$(PYTHON) course_lib/install.py test
	@$(BIN)/python tests/run.py $(PARTS)

bench:
	@$(PYTHON) course_lib/install.py test bench
	@$(BIN)/python tests/benchmarks/run.py

slides:
	@$(PYTHON) course_lib/install.py
	@$(BIN)/course slides
