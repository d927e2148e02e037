# Two commands: `make lab` opens the course, `make test` tries some of everything in minutes. Both set up .venv when it is missing.
# Beside them `make prove` runs every test (`make rest`: those that `make test` leaves out), `make bench` prints timings beside peers,
# `make slides` builds the lecture decks, `make site` the course as a web site. `make test LAB=07` runs what concerns one lab.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: lab test rest prove bench slides site

lab:
	@$(PYTHON) course_lib/install.py
	@$(BIN)/course lab

test rest prove:
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
