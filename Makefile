# Two commands: `make lab` opens the course, `make test` runs the fast tests. Both set up .venv when it is missing.
# `make test-all` runs every test (`make rest`: those that `make test` leaves out), `make bench` compares timings with peers,
# `make slides` builds the lecture decks, `make site` builds the web site. `make test LAB=07` runs the tests of one lab.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: lab test rest test-all bench slides site

lab:
	@$(PYTHON) course_lib/install.py
	@$(BIN)/course lab

test rest test-all:
	@$(PYTHON) course_lib/install.py test site
	@$(BIN)/python tests/run.py $@ $(PARTS) $(if $(LAB),--lab $(LAB))

bench:
	@$(PYTHON) course_lib/install.py test bench
	@$(BIN)/python tests/benchmarks/run.py

slides:
	@$(PYTHON) course_lib/install.py
	@$(BIN)/course slides

site:
	@$(PYTHON) course_lib/install.py site
	@$(BIN)/course site
