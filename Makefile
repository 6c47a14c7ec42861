# The front door. CMake does the building; docker/deps.sh fetches what is missing first.
#
#   make          build build/millrace and everything beside it
#   make demo     one machine, no broker: ask the small model something and watch it answer
#   make check    the quick tests, on the build at hand
#   make test     all tests: release, address and thread sanitizers, tidy, a real Kafka and Redis
#   make bench    the engine's speed as a table and as JSON (build/bench.json)
#   make chaos    workers and a real Kafka are killed, stopped and restarted under load: a table, and JSON in build
#   make format   lay out the sources       make tidy   the rules of the tree
#   make asan tsan coverage                 make install PREFIX=…     make clean

BUILD  ?= build
PREFIX ?= /usr/local
PROMPT ?=
JOBS   ?= $(shell nproc)
DELIVERY ?= at-least-once
SCENARIO ?=

.PHONY: build demo test check bench chaos format tidy asan tsan coverage install clean deps check_tools

build: $(BUILD)/build.ninja
	@cmake --build $(BUILD) -j $(JOBS)

deps:
	@docker/deps.sh build

check_tools:
	@docker/deps.sh check

$(BUILD)/build.ninja: deps
	@[ -f $@ ] || cmake -G Ninja -B $(BUILD)

demo: $(BUILD)/build.ninja
	@cmake --build $(BUILD) -j $(JOBS) --target millrace
	@$(BUILD)/millrace demo $(PROMPT)

test:
	@BUILD=$(BUILD) JOBS=$(JOBS) tests/run.sh all

check: check_tools
	@BUILD=$(BUILD) JOBS=$(JOBS) tests/run.sh quick

asan tsan coverage:
	@BUILD=$(BUILD) JOBS=$(JOBS) tests/run.sh $@

tidy: check_tools
	@tests/tidy/tidy.sh

bench: $(BUILD)/build.ninja
	@cmake --build $(BUILD) -j $(JOBS) --target millrace
	@$(BUILD)/millrace bench --engine --model .deps/model/*.gguf --output $(BUILD)/bench.json

# DELIVERY=exactly-once for the other mode; SCENARIO for some of them.
chaos: $(BUILD)/build.ninja
	@docker/deps.sh test
	@cmake --build $(BUILD) -j $(JOBS) --target millrace checker produce
	@MILLRACE_TOOLS=$(BUILD) tests/integration/chaos.py --delivery $(DELIVERY) --json $(BUILD)/chaos-$(DELIVERY).json $(SCENARIO)

format: check_tools
	@find worker batching kvcache codec ops tests -name '*.[ch]' -o -name '*.cpp' | xargs .deps/clang-format/clang-format -i

install: build
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	@rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan $(BUILD)-coverage
