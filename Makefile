# TalkNode's set-up, build and checks. `make` lists the targets. Each one installs the Debian packages it needs first.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# The steps share one build folder and one package database.
.NOTPARALLEL:

SWIFT ?= swift
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
DESTDIR ?=
# Where a user unit belongs depends on who installs: with the machine's packages, by hand for all, or for one person.
UNIT_DIR ?= $(if $(filter /usr,$(PREFIX)),/usr/lib/systemd/user,$(if $(filter $(HOME)/%,$(PREFIX)),$(HOME)/.config/systemd/user,/etc/systemd/user))
# Below share/, for bash, zsh and fish.
COMPLETIONS := bash-completion/completions/talknode zsh/$(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)/_talknode \
  fish/vendor_completions.d/talknode.fish
DESKTOP_FILE := org.talknode.TalkNode.desktop
# Arguments for `make demo` and `make bench`: make demo ARGS=--live
ARGS ?=

PACKAGES := config/install-packages
SOURCES := Package.swift $(shell find Sources -type f)
RELEASE := .build/release/talknode
# What makes clips: beside the program when it was just built, in libexec when it is installed.
ENCODER := $(RELEASE)-encoder
# One executable with the Swift runtime inside and no symbols. Always these flags: others would build everything again.
RELEASE_FLAGS := -c release --static-swift-stdlib -Xlinker -s -j $(JOBS)
FORMATTED := Sources Tests Package.swift
VENV := .build/venv

.PHONY: help demo test room build install uninstall bench lint format fuzz sanitize conformance deb clean \
  packages-build packages-run packages-demo packages-test toolchain unit-tests test-hangs test-speech test-vm bench-vm

help: ## list these targets
	@sed -nE 's/^([a-z][a-z-]*):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r target text; do \
	  printf '  make %-12s %s\n' "$$target" "$$text"; done

demo: packages-run packages-demo ## pair this machine with a gateway on loopback and let its agent call every command (ARGS="--live", …)
	@echo "Building (about a minute the first time)."
	@$(SWIFT) build --product talknode-encoder -j $(JOBS) --quiet
	@$(SWIFT) build --product talknode -j $(JOBS) --quiet
	@.build/debug/talknode demo $(ARGS)

test: packages-run packages-test unit-tests test-vm conformance ## everything that must pass: the test suites, those in QEMU, the conformance clients

unit-tests: packages-run packages-test toolchain
	$(SWIFT) build --build-tests -j $(JOBS) --quiet
	@SWIFT="$(SWIFT)" Tests/run

test-vm: packages-run packages-test toolchain ## cameras, a sound card and keys of a kernel of their own, in QEMU
	$(SWIFT) build --build-tests -j $(JOBS) --quiet
	@Tests/Guest/test

test-speech: packages-run packages-test toolchain ## real recognisers on real speech; fetches about 550 MB the first time, and takes minutes
	Tests/Speech/test-speech

# espeak-ng is one for a whole process: each of these tests has a process of its own.
test-hangs: packages-run packages-test toolchain ## what the voice does when its library hangs or has no data
	$(SWIFT) build --build-tests -j $(JOBS) --quiet
	@for test in hang hangs noData; do $(SWIFT) test --skip-build --disable-xctest --filter "SpeechHangs/$$test\\(\\)" || exit 1; done

room: packages-run packages-test toolchain ## one room's suite and only what it stands on (ROOM=Speech): quick while working on it
	TALKNODE_ROOMS="$(ROOM)Tests" $(SWIFT) test --scratch-path .build/room --disable-xctest -j $(JOBS)

build: packages-run $(RELEASE) ## the program as it is installed: .build/release/talknode

$(RELEASE): $(SOURCES) | packages-build toolchain
	$(SWIFT) build $(RELEASE_FLAGS) --product talknode
	$(SWIFT) build $(RELEASE_FLAGS) --product talknode-encoder
	@touch $@

# Under sudo the toolchain is often not on PATH: what was built is installed then as it is.
install: $(if $(shell command -v $(SWIFT)),$(RELEASE)) ## install program, user unit, manual, completions and sample configuration (PREFIX=/usr/local, DESTDIR=)
	@[ -x $(RELEASE) ] || { echo "Nothing is built yet. First: make build"; exit 69; }
	install -D -m 755 $(RELEASE) "$(DESTDIR)$(PREFIX)/bin/talknode"
	install -D -m 755 $(ENCODER) "$(DESTDIR)$(PREFIX)/libexec/talknode/talknode-encoder"
	install -D -m 644 config/talknode.toml "$(DESTDIR)$(PREFIX)/share/talknode/talknode.toml"
	install -D -m 644 -t "$(DESTDIR)$(PREFIX)/share/talknode/recipes" config/recipes/*.toml config/recipes/README.md
	install -m 755 -t "$(DESTDIR)$(PREFIX)/share/talknode/recipes" config/recipes/faster-whisper-helper
	install -d "$(DESTDIR)$(PREFIX)/share/talknode/samples"
	cp -r samples/speech samples/location samples/health "$(DESTDIR)$(PREFIX)/share/talknode/samples/"
	install -D -m 644 -t "$(DESTDIR)$(PREFIX)/share/talknode/samples/camera" samples/camera/room.mjpeg
	install -d "$(DESTDIR)$(UNIT_DIR)"
	sed 's|@bindir@|$(PREFIX)/bin|' config/talknode.service > "$(DESTDIR)$(UNIT_DIR)/talknode.service"
	chmod 644 "$(DESTDIR)$(UNIT_DIR)/talknode.service"
	install -d $(addprefix "$(DESTDIR)$(PREFIX)/share"/,applications man/man1 $(sort $(dir $(COMPLETIONS))))
	sed 's|@bindir@|$(PREFIX)/bin|' config/$(DESKTOP_FILE) > "$(DESTDIR)$(PREFIX)/share/applications/$(DESKTOP_FILE)"
	$(RELEASE) manual > "$(DESTDIR)$(PREFIX)/share/man/man1/talknode.1"
	$(RELEASE) completions bash > "$(DESTDIR)$(PREFIX)/share/$(word 1,$(COMPLETIONS))"
	$(RELEASE) completions zsh > "$(DESTDIR)$(PREFIX)/share/$(word 2,$(COMPLETIONS))"
	$(RELEASE) completions fish > "$(DESTDIR)$(PREFIX)/share/$(word 3,$(COMPLETIONS))"
	@echo "Start it with: systemctl --user daemon-reload && systemctl --user enable --now talknode"

uninstall: ## remove what install put there; settings, pairing and audit log of each person stay
	rm -f "$(DESTDIR)$(PREFIX)/bin/talknode" "$(DESTDIR)$(UNIT_DIR)/talknode.service" \
	  $(addprefix "$(DESTDIR)$(PREFIX)/share"/,applications/$(DESKTOP_FILE) man/man1/talknode.1 $(COMPLETIONS))
	rm -rf "$(DESTDIR)$(PREFIX)/share/talknode" "$(DESTDIR)$(PREFIX)/libexec/talknode"

deb: $(RELEASE) ## a Debian package of the release build in .build
	@packaging=$$(mktemp -d); trap 'rm -rf "$$packaging"' EXIT; \
	  $(MAKE) install PREFIX=/usr DESTDIR="$$packaging" >/dev/null; config/make-deb "$$packaging" .build

bench: packages-run packages-test $(RELEASE) ## measure size, start, latency, memory and wake-ups against their targets (ARGS=--json)
	@TALKNODE_BENCH=1 $(SWIFT) build $(RELEASE_FLAGS) --product talknode-bench --quiet
	@.build/release/talknode-bench --program $(RELEASE) $(ARGS)

bench-vm: packages-run packages-test $(RELEASE) ## what a picture costs with real drivers, beside other programs, in QEMU (ARGS=--json)
	@TALKNODE_BENCH=1 $(SWIFT) build $(RELEASE_FLAGS) --product talknode-bench --quiet
	@Tests/Guest/bench $(RELEASE) $(ARGS)

lint: packages-build toolchain ## check the format of every source file
	$(SWIFT) format lint --strict -r $(FORMATTED)

format: packages-build toolchain ## rewrite every source file in the project's format
	$(SWIFT) format -i -r $(FORMATTED)

fuzz: packages-build toolchain ## each decoder of foreign bytes against libFuzzer for 60 s (SECONDS_EACH=60)
	@Tests/Fuzz/run $(or $(SECONDS_EACH),60)

SANITIZERS ?= thread address
sanitize: packages-run packages-test toolchain ## the test suites under the thread and the address sanitizer
	@# Reports go to files, those of programs that a test starts too: one of them fails the run, also when the tests pass. Leaks are not
	@# looked for: libsndfile leaves a damaged Ogg file's headers behind, Foundation the environment. Growth is what `make bench` measures.
	@for sanitizer in $(SANITIZERS); do \
	  scratch=$(CURDIR)/.build-$$sanitizer; reports=$$scratch/reports; rm -rf "$$reports"; mkdir -p "$$reports"; \
	  echo "Building with the $$sanitizer sanitizer."; \
	  $(SWIFT) build --build-tests --sanitize=$$sanitizer --scratch-path "$$scratch" -j $(JOBS) --quiet 2>&1 \
	    | { grep -v "Cannot export local symbol" || true; } || exit 1; \
	  status=0; \
	  SWIFT="$(SWIFT)" TSAN_OPTIONS="log_path=$$reports/report" ASAN_OPTIONS="detect_leaks=0 log_path=$$reports/report" \
	    Tests/run --sanitize=$$sanitizer --scratch-path "$$scratch" || status=1; \
	  if [ -n "$$(ls -A "$$reports")" ]; then head -n 60 "$$reports"/*; status=1; fi; \
	  [ $$status = 0 ] || exit 1; \
	  echo "$$sanitizer sanitizer: nothing found"; done

conformance: packages-run packages-test $(VENV)/ready ## programs of other make against our gateway and our node
	@$(SWIFT) build --product talknode -j $(JOBS) --quiet
	@$(VENV)/bin/python Tests/Conformance/run.py --program .build/debug/talknode

$(VENV)/ready: Tests/Conformance/requirements.txt | packages-test
	rm -rf $(VENV)
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r Tests/Conformance/requirements.txt
	@touch $@

clean: ## remove everything that was built
	rm -rf .build .build-*

packages-build:
	@$(PACKAGES) build
packages-run: toolchain
	@$(PACKAGES) build run
# What can't be had costs the demo a step, which says so, and not the demo.
packages-demo:
	@$(PACKAGES) demo || echo "The demo goes on without it."
packages-test:
	@$(PACKAGES) demo test

# A toolchain that is missing or too old gives errors that name neither; this says it in one sentence.
toolchain: packages-build
	@if ! command -v $(SWIFT) >/dev/null; then \
	  echo "No Swift toolchain on PATH. Get Swift 6.2 or newer for this system at swift.org/install/linux, and put its usr/bin on PATH." >&2; exit 69; fi; \
	version=$$($(SWIFT) --version 2>/dev/null | sed -nE 's/.*Swift version ([0-9.]+).*/\1/p' | head -n 1); \
	if [ "$$(printf '%s\n' 6.2 "$$version" | sort -V | head -n 1)" != 6.2 ]; then \
	  echo "$(SWIFT) is version $${version:-unknown}; TalkNode needs 6.2 or newer (swift.org/install/linux)." >&2; exit 69; fi
