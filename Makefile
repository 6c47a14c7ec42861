# Entry points for building and testing. docker/deps.sh installs what is missing; CMake builds.
#
#   make          build build/millrace and all test programs
#   make demo     answer one prompt with the small model and an embedded broker; PROMPT=… sets the prompt
#   make check    the quick tests, on the release build
#   make test     all tests: release build, both sanitizers, tidy rules, Apache Kafka and Redis
#   make stops    SIGTERM in thirteen phases of a worker's life: a table, and JSON in build
#   make tour     the tour of docker/guide/operating.md, command for command
#   make soak     hours of load with faults: memory, descriptors, threads and times in build/soak.svg; HOURS=…
#   make repeat   the quick tests 300 times, those with threads 5,000 times, on two busy cores; MINUTES=… NAME=…
#   make mutants  plant bugs, one after the other, and see which tests catch them
#   make bench    the speed of the engine as a table and as JSON (build/bench.json)
#   make sweep    lives of a worker in which every allocation, system call and tensor call fails once
#   make simulate simulate fleets of whole workers under faults; SEEDS=… says how many, BASE=… the first seed
#   make schemas  1,000 schemas answered by the small model at temperature 1, each answer validated; SUITE=… adds public ones
#   make models   models drawn at random against transformers; SEED=, COUNT=, FAMILY="a b", LLAMA_CPP= for GGUF, PYTHON=
#   make chaos    kill, stop and restart workers and Apache Kafka under load: a table, and JSON in build
#   make scale    a fleet that sleeps and wakes by millrace lag, with Apache Kafka: JSON in build
#   make torch    the longest tests of the backend torch, five minutes
#   make arm64    on x86-64: cross-compile for arm64; the unit, simulation and golden tests in an emulator
#   make cuda-check  2,000 random cases of every CUDA kernel without a card, and nvcc for three architectures
#   make gpu-bundle  what a machine with a card needs to run the next two, in build-gpu/millrace-gpu.tar.gz
#   make gpu-check   is what a card computes right? JSON      make gpu-bench   how fast is it? JSON
#   make fuzz     fuzz every parser for TIME seconds each; TARGET=name for one       make fuzz-min: see tests/fuzz
#   make format   format the sources        make tidy   the rules of the source tree
#   make asan tsan coverage                 make install PREFIX=…     make deb      make clean

BUILD  ?= build
PREFIX ?= /usr/local
PROMPT ?=
JOBS   ?= $(shell nproc)
DELIVERY ?= at-least-once
SCENARIO ?=
SEEDS  ?= 20000
BASE   ?= 1
TIME ?= 60
TARGET ?=

.PHONY: build deb demo test torch check bench simulate schemas models chaos stops scale tour soak mutants arm64 cuda-check gpu-bundle gpu-check gpu-bench \
	fuzz fuzz-min format tidy asan sweep tsan coverage \
	install clean deps check_tools

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

asan sweep tsan coverage:
	@BUILD=$(BUILD) JOBS=$(JOBS) tests/run.sh $@

torch: check_tools
	@BUILD=$(BUILD) JOBS=$(JOBS) tests/run.sh torch

tidy: check_tools
	@tests/tidy/tidy.sh

bench: $(BUILD)/build.ninja
	@cmake --build $(BUILD) -j $(JOBS) --target millrace
	@$(BUILD)/millrace bench --engine --model .deps/model/*.gguf --output $(BUILD)/bench.json

# build/sim_test_fleet SEED prints what happens in one of them.
simulate: $(BUILD)/build.ninja
	@cmake --build $(BUILD) -j $(JOBS) --target sim_test_fleet
	@$(BUILD)/sim_test_fleet $(BASE) $(SEEDS) $(JOBS)

# SUITE: the folder json/tests/draft2020-12 of the source package of PyPI jsonschema.
schemas: $(BUILD)/build.ninja
	@docker/deps.sh test
	@cmake --build $(BUILD) -j $(JOBS) --target millrace grammar_draw
	@MILLRACE_BIN=$(BUILD)/millrace tests/integration/grammar/test_grammar.py --served 1000 $(if $(SUITE),--suite $(SUITE))

# PYTHON: an interpreter with torch, transformers 5 and safetensors; LLAMA_CPP: a source tree, for GGUF files too.
models: $(BUILD)/build.ninja
	@cmake --build $(BUILD) -j $(JOBS) --target golden_test_logits golden_test_texts
	@$(or $(PYTHON),python3) tests/golden/random_models.py --seed $(or $(SEED),1) --count $(or $(COUNT),6) \
		$(if $(LLAMA_CPP),--gguf $(LLAMA_CPP)) $(BUILD)/golden_test_logits $(FAMILY)

# DELIVERY=exactly-once tests that mode; SCENARIO names the scenarios to run, all but kills by default:
# SCENARIO=kills KILLS=500 HOURS=1 kills workers for an hour.
chaos: $(BUILD)/build.ninja
	@docker/deps.sh test
	@cmake --build $(BUILD) -j $(JOBS) --target millrace checker produce
	@MILLRACE_TOOLS=$(BUILD) tests/integration/chaos.py --delivery $(DELIVERY) $(if $(KILLS),--times $(KILLS)) \
		$(if $(HOURS),--hours $(HOURS)) --json $(BUILD)/chaos-$(DELIVERY).json $(SCENARIO)

# PHASE names the phases to run, all by default.
stops: $(BUILD)/build.ninja
	@docker/deps.sh test
	@cmake --build $(BUILD) -j $(JOBS) --target millrace checker produce topic
	@MILLRACE_TOOLS=$(BUILD) tests/integration/stops.py --json $(BUILD)/stops.json $(PHASE)

scale: $(BUILD)/build.ninja
	@docker/deps.sh test
	@cmake --build $(BUILD) -j $(JOBS) --target millrace topic
	@MILLRACE_TOOLS=$(BUILD) tests/integration/scale.py --kafka --millrace $(BUILD)/millrace --json $(BUILD)/scale.json

tour: check_tools
	@tests/integration/docker/tour.py

# HOURS of 70 % load with a fault every few minutes, 40 in two hours; figures as JSON and as an SVG in build.
soak: $(BUILD)/build.ninja
	@docker/deps.sh test
	@cmake --build $(BUILD) -j $(JOBS) --target millrace checker produce
	@MILLRACE_TOOLS=$(BUILD) tests/soak/soak.py --hours $(or $(HOURS),2) --delivery $(DELIVERY) \
		--json $(BUILD)/soak.json --svg $(BUILD)/soak.svg

# NAME is a part of the names of the tests to run.
repeat: build
	@BUILD=$(BUILD) tests/repeat.py $(if $(MINUTES),--minutes $(MINUTES)) $(NAME)

# Bugs planted one after the other in a copy of the tree: which tests catch which. NAME="a b" tries these alone.
mutants: check_tools
	@tests/mutants/mutants.py run $(NAME)

arm64:
	@BUILD=$(BUILD) JOBS=$(JOBS) tests/run.sh arm64

# The registers of each kernel go into ops/cuda/occupancy.md, which tests/cuda/occupancy.py writes.
cuda-check:
	@docker/deps.sh cuda
	@BUILD=$(BUILD) JOBS=$(JOBS) tests/run.sh cuda

gpu-bundle:
	@docker/deps.sh cuda
	@tests/gpu/bundle.sh $(BUILD)-gpu $(JOBS)

# On a machine with a card, from its bundle; without a card the scripts say so and exit with 3.
gpu-check:
	@tests/gpu/check.py $(if $(MODEL),--model $(MODEL) $(EXPECTED))

gpu-bench:
	@tests/gpu/bench.py

fuzz fuzz-min:
	@docker/deps.sh fuzz
	@BUILD=$(abspath $(BUILD)) JOBS=$(JOBS) tests/run.sh fuzz
	@BUILD=$(abspath $(BUILD)) tests/fuzz/fuzz.py $(if $(filter fuzz,$@),run --time $(TIME),min) $(TARGET)

format: check_tools
	@find worker batching kvcache codec ops tests -name '*.[ch]' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' | xargs .deps/clang-format/clang-format -i

# build/millrace_VERSION_ARCHITECTURE.deb, with LibTorch. Debian sorts 0.2.0~dev before 0.2.0, but 0.2.0-dev after it.
deb: $(BUILD)/build.ninja
	@docker/deps.sh deb
	@cmake --build $(BUILD) -j $(JOBS) --target millrace
	@cd $(BUILD) && cpack -D CPACK_PACKAGE_VERSION=$$(./millrace version | cut -d' ' -f2 | tr - '~') && rm -r _CPack_Packages

install: $(BUILD)/build.ninja
	@cmake --build $(BUILD) -j $(JOBS) --target millrace
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	@rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan $(BUILD)-coverage $(BUILD)-fuzz $(BUILD)-gpu $(BUILD)-arm64
