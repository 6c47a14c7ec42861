#!/bin/sh
# Workers join and leave while requests are in flight: every request must be answered, no finished request may
# run again, token records must have no gaps. With the embedded broker, with Apache Kafka, and with Apache Kafka and
# workers that compute on LibTorch's operators.
set -eu
. "$(dirname "$0")/services.sh"

build=${BUILD:-build}
model=$deps/model/SmolLM2-135M-Instruct.Q4_1.gguf
requests=${FLEET_REQUESTS:-80}
tokens=${FLEET_TOKENS:-24}
backend=cpu
threads=0

fail() {
    echo "FAILED: $*" >&2
    for log in "$SERVICES"/*.log; do
        echo "-- $log" >&2
        tail -n 20 "$log" >&2
    done
    exit 1
}

# The log is emptied before the program starts, so that a wait for a line does not find one of an earlier run.

worker_start() { # worker_start NAME [KV-MEMORY]
    : >"$SERVICES/$1.log"
    "$build/millrace" serve --model "$model" --brokers "$brokers" --http off --kv-memory "${2:-512MiB}" \
        --worker-id "$1" --drain-timeout 10s --session-timeout 6s --log-format json \
        --backend "$backend" --threads "$threads" \
        >"$SERVICES/$1.log" 2>&1 &
    echo $! >"$SERVICES/$1.pid"
}

workers_end() {
    for name in fleet w1 w2 w3 broker; do service_stop "$name" KILL; done
    services_end
}
trap workers_end EXIT

assigned() { grep -q '"assigned":[1-9]' "$SERVICES/$1.log"; }
answered() { [ "$(sed -n 's/^answered //p' "$SERVICES/fleet.out" | tail -n 1)" -ge "$1" ]; }

fleet_start() {
    : >"$SERVICES/fleet.out"
    "$build/fleet" "$brokers" requests "$requests" "$tokens" >"$SERVICES/fleet.out" 2>"$SERVICES/fleet.log" &
    fleet=$!
    echo "$fleet" >"$SERVICES/fleet.pid"
}

fleet_end() { # fleet_end SCENARIO
    wait "$fleet" || { rm -f "$SERVICES/fleet.pid" && fail "$1: $(tail -n 1 "$SERVICES/fleet.out")"; }
    rm -f "$SERVICES/fleet.pid"
    echo "$1: $(tail -n 1 "$SERVICES/fleet.out")"
}

ended_well() { # ended_well NAME: the worker, which has got SIGTERM, must exit with 0
    pid=$(cat "$SERVICES/$1.pid")
    code=0
    wait "$pid" || code=$?
    rm -f "$SERVICES/$1.pid"
    [ "$code" = 0 ] || fail "$1 exited $code"
}

scenarios() { # scenarios NAME: with $brokers set
    worker_start w1
    wait_for 60 w1 assigned w1
    worker_start w2
    wait_for 60 w2 assigned w2
    fleet_start
    fleet_end "$1, two workers"
    grep -q 'duplicate results 0, later attempts 0' "$SERVICES/fleet.out" ||
        fail "$1: a request ran twice without a reason"

    fleet_start
    wait_for 60 fleet answered $((requests / 5))
    kill -TERM "$(service_pid w1)"
    ended_well w1
    fleet_end "$1, one told to end midway"

    worker_start w1
    wait_for 60 w1 assigned w1
    fleet_start
    wait_for 60 fleet answered $((requests / 5))
    kill -KILL "$(service_pid w2)"
    wait "$(service_pid w2)" 2>/dev/null || true
    rm -f "$SERVICES/w2.pid"
    fleet_end "$1, one killed midway"

    kill -TERM "$(service_pid w1)"
    ended_well w1
}

"$build/millrace" broker >"$SERVICES/broker.log" 2>&1 &
echo $! >"$SERVICES/broker.pid"
wait_for 10 broker grep -q '^bootstrap ' "$SERVICES/broker.log"
brokers=$(sed -n 's/^bootstrap //p' "$SERVICES/broker.log")
scenarios "embedded broker"

worker_start w3 32MiB # a pool that the first round fills, so that later growth is a leak
wait_for 60 w3 assigned w3
"$build/fleet" "$brokers" poison tests/golden/poison 1 >"$SERVICES/fleet.out" 2>"$SERVICES/fleet.log" ||
    fail "poison: $(tail -n 1 "$SERVICES/fleet.out")"
before=$(awk '/VmRSS/ { print $2 }' "/proc/$(service_pid w3)/status")
"$build/fleet" "$brokers" poison tests/golden/poison 3 >"$SERVICES/fleet.out" 2>"$SERVICES/fleet.log" ||
    fail "poison: $(tail -n 1 "$SERVICES/fleet.out")"
after=$(awk '/VmRSS/ { print $2 }' "/proc/$(service_pid w3)/status")
echo "poison: $(tail -n 1 "$SERVICES/fleet.out"); worker $before kB before, $after kB after"
[ $((after - before)) -lt 16384 ] || fail "the worker grew from $before kB to $after kB"
kill -TERM "$(service_pid w3)"
ended_well w3
service_stop broker TERM

kafka_start
brokers=$KAFKA_BROKERS
kafka_topic millrace.requests 4
scenarios "Apache Kafka"

# LibTorch's threads spin while they wait for each other, so two workers on the same cores get one each.
backend=torch
threads=1
requests=$((requests / 4))
scenarios "Apache Kafka, LibTorch"
