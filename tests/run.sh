#!/bin/sh
# Builds and runs test suites; the last line counts passed and failed tests.
#
#   tests/run.sh quick      release build, without the integration tests and the slow tests of the real model
#   tests/run.sh all        all tests of the release build, then both sanitizers
#   tests/run.sh asan       unit, golden and simulation tests and quick sweeps under AddressSanitizer and UBSan, KV
#                           blocks of 16 tokens
#   tests/run.sh sweep      the slow sweeps too: a whole worker with its threads, five minutes
#   tests/run.sh tsan       the threaded tests under ThreadSanitizer
#   tests/run.sh torch      the longest tests of the backend torch, five minutes: each golden model in bf16 and fp16, and the
#                           real model's answers in batches of other sizes
#   tests/run.sh arm64      cross-compiled for arm64: the tests that start no other program, in an emulator (not slow ones)
#   tests/run.sh cuda       the CUDA kernels on the host, 2,000 random cases each, and nvcc's report on them
#   tests/run.sh fuzz       builds the fuzz targets with clang, for tests/fuzz/fuzz.py
#   tests/run.sh coverage   unit tests and simulation built for gcov, with a line count a folder
#
# BUILD is the folder of the release build (default: build); the other builds are next to it. JOBS
# limits parallel jobs.
set -u

cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build}
jobs=${JOBS:-$(nproc)}
waiting="-j $((2 * jobs))" # option of ctest for tests that wait more than they compute
torch_tests='^golden_torch_(rounding|invariance)$'
passed=0
failed=0

configure() { # configure FOLDER CMAKE-OPTION...
    folder=$1
    shift
    mkdir -p "$folder"
    cmake -G Ninja -B "$folder" "$@" >"$folder/configure.log" 2>&1 || {
        cat "$folder/configure.log"
        return 1
    }
}

count() { # count PASSED FAILED
    passed=$((passed + $1))
    failed=$((failed + $2))
}

# suite NAME FOLDER TARGET CTEST-OPTION...: builds and tests; a failed build counts as one failed test. Some tests wait
# for timers and servers, so that one more than JOBS runs at a time.
suite() {
    name=$1
    folder=$2
    target=$3
    shift 3
    echo "== $name"
    if ! cmake --build "$folder" -j "$jobs" --target "$target"; then
        echo "== $name: the build failed"
        count 0 1
        return
    fi
    log=$folder/Testing/$name.log
    mkdir -p "$folder/Testing"
    ctest --test-dir "$folder" -j $((jobs + 1)) --no-tests=error --output-on-failure "$@" 2>&1 | tee "$log"
    summary=$(sed -n 's/.* tests passed, \([0-9]*\) tests failed out of \([0-9]*\)/\1 \2/p' "$log")
    if [ -z "$summary" ]; then
        count 0 1
    else
        count $((${summary#* } - ${summary% *})) "${summary% *}"
    fi
}

release() { # release NAME CTEST-OPTION...
    configure "$build" || { count 0 1 && return; }
    name=$1
    shift
    suite "$name" "$build" all "$@"
}

# KV blocks of 16 tokens, so that a block size other than the default is tested too.
configure_asan() { configure "$build-asan" -DMR_SANITIZE=address -DMR_BLOCK_TOKENS=16; }
configure_tsan() { configure "$build-tsan" -DMR_SANITIZE=thread; }

asan() {
    configure_asan || { count 0 1 && return; }
    suite asan "$build-asan" tests $waiting -L 'unit|sim|golden|sweep' -LE slow
}

sweep() {
    configure_asan || { count 0 1 && return; }
    suite sweep "$build-asan" tests -L sweep
}

tsan() {
    configure_tsan || { count 0 1 && return; }
    suite tsan "$build-tsan" threaded_tests $waiting -L threads
}

arm64() {
    configure "$build-arm64" --toolchain docker/arm64.cmake || { count 0 1 && return; }
    cmake --build "$build-arm64" -j "$jobs" --target millrace || { count 0 1 && return; }
    # Left out: tests that count the threads of the process, because the emulator has one more;
    # tests that set a socket option that the emulator lacks; and a script that starts millrace.
    suite arm64 "$build-arm64" tests -L 'unit|sim|golden' -LE slow \
        -E '^(worker_test_process_metrics|fuzz_http|gpu_test_no_card)$'
}

# Builds for the sanitizers while the integration tests run, because these mostly wait for servers.
# Runs until it is killed. The suites build the rest on all cores, and report a build failure.
build_ahead() {
    ninja=
    trap 'kill "$ninja" 2>/dev/null; wait; exit' TERM
    configure_asan && ahead "$build-asan" tests
    configure_tsan && ahead "$build-tsan" threaded_tests
} >/dev/null 2>&1

ahead() { # ahead FOLDER TARGET
    nice ninja -C "$1" -j 1 "$2" &
    ninja=$!
    wait "$ninja"
}

coverage() {
    configure "$build-coverage" -DMR_COVERAGE=ON || { count 0 1 && return; }
    suite coverage "$build-coverage" tests -L 'unit|sim'
    for folder in codec kvcache ops batching worker; do
        find "$build-coverage/CMakeFiles/mr_$folder.dir" -name '*.gcda' 2>/dev/null |
            xargs -r gcov -n 2>/dev/null |
            awk -v folder="$folder" '
                /^File / { ours = index($0, "/" folder "/") && !seen[$0]++ }
                /^Lines executed/ && ours { split($2, p, /[:%]/); n = $4; lines += n; hit += n * p[2] / 100; ours = 0 }
                END { if (lines) printf "%-9s %5.1f %% of %d lines\n", folder, 100 * hit / lines, lines }'
    done
}

# Only the targets are built: the other programs would take minutes.
fuzz() {
    configure "$build-fuzz" -DMR_FUZZ=ON -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ || return 1
    cmake --build "$build-fuzz" -j "$jobs" --target fuzz_targets
}

case ${1:-} in
fuzz)
    fuzz
    exit
    ;;
quick) release quick $waiting -LE 'integration|slow' ;;
torch) release torch -R "$torch_tests" ;;
cuda)
    configure "$build" || exit 1
    suite cuda "$build" cuda_programs -L cuda
    ;;
all)
    docker/deps.sh test || exit 1
    # left out: 2,000 cases of each kernel (make cuda-check), five minutes of LibTorch (make torch)
    release release -LE integration -E "^cuda_.*_many\$|$torch_tests"
    build_ahead &
    builder=$!
    release integration -L integration
    kill "$builder" 2>/dev/null
    wait
    asan
    tsan
    ;;
arm64)
    docker/deps.sh arm64 || exit 1
    arm64
    ;;
asan | sweep | tsan | coverage)
    docker/deps.sh build || exit 1
    "$1"
    ;;
*) echo "usage: tests/run.sh quick|all|asan|sweep|tsan|torch|coverage|arm64|cuda|fuzz" >&2 && exit 2 ;;
esac

echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
