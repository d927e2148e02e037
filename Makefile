# Two commands: `make lab` opens the course, `make test` runs the fast tests. Both set up .venv when it is missing.
# `make test-all` runs every test (`make rest`: those that `make test` leaves out), `make bench` compares timings with peers,
# `make slides` builds the lecture decks, `make site` builds the web site. `make test LAB=07` runs the tests of one lab.
# `make lock` writes the versions that set-up installs; it needs uv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: lab test rest test-all bench slides site lock

lab:
	@$(PYTHON) course_lib/install.py
	@$(BIN)/course lab

test rest test-all:
	@$(PYTHON) course_lib/install.py test site
	@$(BIN)/python tests/run.py $@ $(PARTS) $(if $(LAB),--lab $(LAB))

bench:
	@$(PYTHON) course_lib/install.py test
	@$(BIN)/python tests/benchmarks/run.py

slides:
	@$(PYTHON) course_lib/install.py
	@$(BIN)/course slides

site:
	@$(PYTHON) course_lib/install.py site
	@$(BIN)/course site

# PyTorch and CUDA depend on the system: course_lib/environment.py sees to them
lock:
	@UV_CUSTOM_COMPILE_COMMAND="make lock" uv pip compile pyproject.toml --upgrade --all-extras --universal --no-annotate --python-version 3.11 \
		| sed -E '/^(torch|torchvision|triton)==|^(nvidia|cuda)-/d' > course_lib/constraints.txt
