# Everything that is done with this repository, one target each.

GO         ?= go
STATICCHECK = v0.8.2
TESTFLAGS  ?=
FUZZTIME   ?= 20s
# Packages whose tests do not run under the race detector: processes of the
# first are sealed so tightly that its shadow memory has no room; the others load
# the JavaScript engine, as programs built without cgo do.
NORACE     ?= ./internal/cellinit/...,./internal/jsc,./internal/worker/...

BUILD  = CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w"
STATIC = .cache/staticcheck-$(STATICCHECK)-$(shell $(GO) env GOVERSION)

.DEFAULT_GOAL = help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: install-deps build ## build, run the sample programs, print their verdicts and the status
	$(GO) run ./examples/tour

build: ## bin/glovebox and bin/glovebox-init, both static
	$(BUILD) -o bin/glovebox ./cmd/glovebox
	$(BUILD) -o bin/glovebox-init ./cmd/glovebox-init

warm: build ## fill the caches of slow compilers for tests and benchmarks; for programs: bin/glovebox languages --warm
	@bin/glovebox languages --warm --cache-dir .cache/warm >/dev/null

test: warm ## vet, then all tests as root and again as an ordinary user
	$(GO) vet ./...
	$(GO) run ./internal/testenv/suite -race -norace "$(NORACE)" $(TESTFLAGS)

test-root: warm ## only the half of the tests as root
	$(GO) run ./internal/testenv/suite -half root -race -norace "$(NORACE)" $(TESTFLAGS)

test-user: warm ## only the half as an ordinary user (root lends him control groups)
	$(GO) run ./internal/testenv/suite -half user $(TESTFLAGS)

check: $(STATIC) ## formatting, vet, staticcheck, the rules of the house, the import policy, the ledger
	@unformatted=$$(gofmt -l $$(find . -name '*.go' -not -path './.cache/*')); \
	  test -z "$$unformatted" || { echo "not formatted (make fmt):" $$unformatted; exit 1; }
	$(GO) vet ./...
	GOOS=darwin $(GO) vet ./api/...
	GOARCH=arm64 $(GO) vet ./...
	$(STATIC) ./...
	$(GO) run ./internal/house/check
	$(GO) test -count=1 -run '^TestImport' .
	$(GO) run ./internal/ledger/gen -check

ledger: ## docs/ledger.json and docs/security-report.md from the tests; proved rows leave docs/open.md
	$(GO) run ./internal/ledger/gen -prune

bench: warm ## measure against the peers on this machine
	$(GO) run ./bench

soak: warm ## the long loops that look for leaks
	$(GO) test -tags soak -run Soak -timeout 120m -v ./...

fuzz: ## every fuzz target for FUZZTIME (20s)
	@set -e; for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "$$pkg $$target"; $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg; \
	  done; done

mutations: ## take guards of the wall away, one at a time, and see their tests fail (MUTATIONS="-n 10 -seed 7" picks ten)
	$(GO) run ./internal/mutations/run $(MUTATIONS)

fmt: ## format the Go files
	gofmt -w $$(find . -name '*.go' -not -path './.cache/*')

install-deps: ## python3, bash, gcc and JavaScriptCore, if they are missing (Debian, as root)
	@missing=; for p in python3 bash gcc; do test -x /usr/bin/$$p || missing="$$missing $$p"; done; \
	  test -e /usr/include/stdio.h || missing="$$missing libc6-dev"; \
	  ls /usr/lib/*-linux-gnu/libjavascriptcoregtk-*.so.* >/dev/null 2>&1 || missing="$$missing libjavascriptcoregtk-6.0-1"; \
	  test -z "$$missing" && exit 0; \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $$missing; \
	  else echo "please install:$$missing"; exit 1; fi

clean: ## remove what was built
	rm -rf bin .cache

# The tool is kept built, so that checking needs no network after the first time.
$(STATIC):
	GOBIN=$(CURDIR)/.cache $(GO) install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK)
	mv .cache/staticcheck $@

.PHONY: help run build warm test test-root test-user check ledger bench soak fuzz mutations fmt install-deps clean
