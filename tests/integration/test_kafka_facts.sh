#!/bin/sh
# Compares the simulated broker of tests/sim/fleet with Kafka: the script of
# tests/fakes/facts/facts.h, run against an Apache Kafka, must print the lines of
# tests/sim/fleet/facts.txt, which the simulated broker prints too (sim_test_facts). With the
# argument "record" the lines are written to that file.
set -eu
cd "$(dirname "$0")/../.."
. tests/integration/services.sh

kafka_start
kafka_topic facts.in 2
kafka_topic facts.out 1
"$MILLRACE_TOOLS/kafka_facts" "$KAFKA_BROKERS" >"$SERVICES/facts.txt"
if [ "${1:-}" = record ]; then
    cp "$SERVICES/facts.txt" tests/sim/fleet/facts.txt
else
    diff tests/sim/fleet/facts.txt "$SERVICES/facts.txt"
fi
