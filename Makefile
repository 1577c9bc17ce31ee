# What people type. Nothing here needs more than Go, but for smoke, mutants and
# fuzz (bash) and generate (protoc 3.21 or newer).

GO ?= go
# make build VERSION=v1.2.3; without it the Go tool's own stamp is the version.
VERSION ?=
LDFLAGS := $(if $(VERSION),-ldflags "-X main.version=$(VERSION)")
# Where concurrency lives; the rest gains little under the race detector.
RACE := ./idem ./fsm ./cluster ./httpapi ./client ./gateway

# How long each fuzz target runs.
FUZZTIME ?= 20s

# What `make bench` runs, and how often: benchstat wants six runs or more before
# it calls a difference significant.
BENCH ?= .
BENCHTIME ?= 0.3s
COUNT ?= 6
BENCHED := ./idem ./fsm ./httpapi ./cluster
BASELINE := scripts/bench-baseline.txt

.PHONY: build test race lint smoke mutants fuzz bench bench-compare bench-baseline generate ci

build: ## bin/onced
	$(GO) build $(LDFLAGS) -o bin/onced ./cmd/onced

test:
	$(GO) test ./...

race:
	$(GO) test -race $(RACE)

lint:
	$(GO) vet ./...
	@bad=$$($(GO) tool gofumpt -l .) && test -z "$$bad" || { echo "not formatted, run: go tool gofumpt -w ."; echo "$$bad"; exit 1; }
	$(GO) tool staticcheck ./...

smoke: ## three processes, the leader killed under load, a rolling restart
	$(GO) run ./scripts/smoke

mutants: ## each safeguard taken out, and the test that notices
	scripts/mutants.sh

fuzz: ## every fuzz target for FUZZTIME
	scripts/fuzz.sh $(FUZZTIME)

bench: bin/bench.txt ## every hot step once more, with its allocations, into bin/bench.txt

.PHONY: bin/bench.txt
bin/bench.txt:
	@mkdir -p bin
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem -count $(COUNT) $(BENCHED) | tee $@

bench-compare: ## the last bench beside the baseline, where benchstat sees a difference
	@test -s bin/bench.txt || { echo "nothing to compare yet, run: make bench"; exit 1; }
	$(GO) tool benchstat -ignore cpu $(BASELINE) bin/bench.txt

bench-baseline: bench ## a new baseline, to be committed with the change that moved it
	cp bin/bench.txt $(BASELINE)

generate: ## fsm/fsmpb and cluster/peerpb from their .proto files
	$(GO) build -o bin/protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go
	protoc --plugin=bin/protoc-gen-go -I . --go_out=. --go_opt=paths=source_relative fsm/fsmpb/fsm.proto cluster/peerpb/peer.proto

ci:
	.ci/run
