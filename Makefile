# Everything that is done with this repository, one target each.

GO         ?= go
STATICCHECK = v0.8.2
TESTFLAGS  ?=
HALF       ?=
MATRIX     ?=
PREFIX     ?= /usr/local
FUZZTIME   ?= 20s
SOAKFUZZ   ?= 10m
# Packages whose tests do not run under the race detector: processes of the
# first are sealed so tightly that its shadow memory has no room; the next load
# the JavaScript engine, as programs built without cgo do; the last read text, and
# what they ask an engine goes through package js, whose own tests are raced. The
# suite leaves out by itself what has nothing to race.
NORACE     ?= ./internal/cellinit/...,./internal/jsc,./internal/worker/...,./internal/jstoken,./preflight

# The Go that go.mod names has the cures of what was found in former ones. Where it cannot
# be had the one that is here builds, and the scan for vulnerabilities says what that means.
TOOLCHAIN := $(shell sed -n 's/^toolchain //p' go.mod)
export GOTOOLCHAIN := $(shell GOTOOLCHAIN=$(TOOLCHAIN) $(GO) version >/dev/null 2>&1 && echo $(TOOLCHAIN) || echo local)

BUILD  = CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w"
STATIC = .cache/staticcheck-$(STATICCHECK)-$(shell GOTOOLCHAIN=$(GOTOOLCHAIN) $(GO) env GOVERSION)

.DEFAULT_GOAL = help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: install-deps build ## build, print the status and serve on loopback, with everything embedded (SERVE="--addr 127.0.0.1:9000": flags of serve)
	bin/glovebox serve --data $(CURDIR)/.cache/serve $(SERVE)

demo: install-deps build ## build, run the sample programs, print their verdicts and the status
	$(GO) run ./examples/tour

build: page ## bin/glovebox, bin/glovebox-init, bin/glovebox-js, and the list of their parts (SPDX)
	$(BUILD) -o bin/glovebox ./cmd/glovebox
	$(BUILD) -o bin/glovebox-init ./cmd/glovebox-init
	$(BUILD) -o bin/glovebox-js ./cmd/glovebox-js
	@$(GO) run ./internal/supply/run -sbom bin/glovebox.spdx.json bin/glovebox bin/glovebox-init bin/glovebox-js

# Its packages are those of the lock file, checked by their sums; none of their scripts run.
MODULES = .cache/page/node_modules
$(MODULES)/.package-lock.json: web/package.json web/package-lock.json web/.npmrc
	@mkdir -p .cache/page && cp $^ .cache/page/
	cd .cache/page && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

page: ## the editor and the curves of the pages, from npm into web/dist; where it brings nothing the pages are plain
	@if $(MAKE) --no-print-directory $(MODULES)/.package-lock.json; then $(GO) run ./web/bundle $(MODULES); \
	  else echo "npm brought nothing: the pages get a plain text field and no curves"; fi

examples: build ## bin/codemode and the other programs of examples/, see examples/README.md
	@for e in examples/*/; do $(BUILD) -o bin/ ./$$e || exit 1; done

warm: build ## fill the caches of slow compilers for tests and benchmarks; for programs: bin/glovebox languages --warm
	@bin/glovebox languages --warm --cache-dir .cache/warm >/dev/null

test: warm ## vet, then all tests as root and again as an ordinary user (HALF=root or HALF=user: one of the two)
	$(GO) vet ./...
	$(GO) run ./internal/testenv/suite $(if $(HALF),-half $(HALF)) $(if $(filter user,$(HALF)),,-race -norace "$(NORACE)") $(TESTFLAGS)

browser: page ## click through the service's pages in Chromium (Debian: chromium); screenshots go into .cache/screenshots
	$(GO) test -tags browser -count=1 -timeout 10m ./internal/browser

matrix: ## other kernels, arm64 and hosts that lack something, in QEMU (MATRIX="-list", "-ci", "-only '*-arm64-*'", "-jobs 1")
	$(GO) run ./matrix/cmd/matrix -jobs 2 $(MATRIX)

check: $(STATIC) ## formatting, vet, staticcheck, the rules of the house, the import policy, the ledger, what is linked
	@unformatted=$$(gofmt -l $$(find . -name '*.go' -not -path './.cache/*')); \
	  test -z "$$unformatted" || { echo "not formatted (make fmt):" $$unformatted; exit 1; }
	$(GO) vet ./...
	GOOS=darwin $(GO) vet ./api/... ./languages ./internal/seatbelt
	GOOS=darwin $(GO) build ./client ./preflight ./internal/wire ./internal/strictjson ./internal/termtext
	GOARCH=arm64 $(GO) vet ./...
	$(GO) vet -tags browser ./internal/browser
	$(STATIC) ./...
	$(GO) run ./internal/house/check
	$(GO) test -count=1 -run '^TestImport' .
	$(GO) run ./internal/ledger/gen -check
	$(GO) run ./internal/supply/run -check

ledger: ## the service's openapi.json, docs/ledger.json, docs/security-report.md, docs/licenses.md; proved rows leave docs/open.md
	$(GO) run ./internal/ledger/gen -prune
	$(GO) test -count=1 -run '^TestOpenAPIDocument$$' ./internal/server -update
	$(GO) run ./internal/supply/run -write

bench: build warm ## measure against the peers on this machine (BENCH="-only javascript": a part; JavaScript's peers and libraries come from npm and apt into .cache)
	$(GO) run ./bench $(BENCH)

libraries: build ## real JavaScript libraries in sealed workers, in every mode: three.js, d3, ECharts, Vega-Lite, turf, dagre, pptxgenjs (from npm into .cache)
	$(GO) test -tags soak -run '^TestSoakLibraries$$' -count=1 -v -timeout 40m ./bench/jsload

soak: warm ## hours: the long loops, every mutation, each fuzz target for SOAKFUZZ (10m); SOAK="-only loops" does a part
	$(GO) run ./internal/testenv/soak -fuzz $(SOAKFUZZ) $(SOAK)

fuzz: ## every fuzz target for FUZZTIME (20s)
	$(GO) run ./internal/testenv/soak -only fuzz -fuzz $(FUZZTIME)

mutations: ## take guards of the wall away, one at a time, and see their tests fail (MUTATIONS="-n 10 -quick -within 4m" tries ten)
	$(GO) run ./internal/mutations/run $(MUTATIONS)

fmt: ## format the Go files
	gofmt -w $$(find . -name '*.go' -not -path './.cache/*')

install-deps: ## python3, bash, gcc and JavaScriptCore, if they are missing (Debian, as root)
	@missing=; for p in python3 bash gcc; do test -x /usr/bin/$$p || missing="$$missing $$p"; done; \
	  test -e /usr/include/stdio.h || missing="$$missing libc6-dev"; \
	  ls /usr/lib/*/libjavascriptcoregtk-*.so.* 2>/dev/null | grep -q . || missing="$$missing libjavascriptcoregtk-6.0-1"; \
	  ls /usr/lib/*-linux-gnu/libjavascriptcoregtk-*.so.* >/dev/null 2>&1 || missing="$$missing libjavascriptcoregtk-6.0-1"; \
	  test -z "$$missing" && exit 0; \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $$missing; \
	  else echo "please install:$$missing"; exit 1; fi

install: ## the programs, the unit and its user, after make build (DESTDIR=, PREFIX=/usr/local); see docs/runbook.md
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(PREFIX)/lib/sysusers.d
	install -m 755 bin/glovebox bin/glovebox-init bin/glovebox-js $(DESTDIR)$(PREFIX)/bin
	install -m 644 packaging/glovebox.service packaging/glovebox.socket $(DESTDIR)$(PREFIX)/lib/systemd/system
	install -m 644 packaging/glovebox.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/glovebox.conf

clean: ## remove what was built
	rm -rf bin .cache web/dist/*.js web/dist/licenses.txt

# The tool is kept built, so that checking needs no network after the first time.
$(STATIC):
	GOBIN=$(CURDIR)/.cache $(GO) install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK)
	mv .cache/staticcheck $@

.PHONY: browser help run demo build page install examples warm test matrix check ledger bench libraries soak fuzz mutations fmt install-deps clean
