#!/bin/sh
# Tests services.sh: the servers start, keep their data over a kill and a restart, and leave no files.
set -eu
. "$(dirname "$0")/services.sh"

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

kafka_start
kafka_topic numbers 3
seq 1 100 | sed 's/.*/key-&:value-&/' | kcat -P -b "$KAFKA_BROKERS" -t numbers -K :
got=$(kcat -C -b "$KAFKA_BROKERS" -t numbers -e -q -f '%k=%s\n' | sort -u | wc -l)
[ "$got" = 100 ] || fail "$got of 100 records came back"

kill -KILL "$(service_pid kafka)"
kafka_restart
got=$(kcat -C -b "$KAFKA_BROKERS" -t numbers -e -q | wc -l)
[ "$got" = 100 ] || fail "$got of 100 records after a kill"

redis_start --maxmemory 64mb
[ "$(redis-cli -u "$REDIS_URL" set key value)" = OK ] || fail "Redis does not store"
redis_stop
redis-cli -u "$REDIS_URL" ping >/dev/null 2>&1 && fail "Redis answers after it was stopped"
redis_restart
[ -z "$(redis-cli -u "$REDIS_URL" get key)" ] || fail "a restarted Redis remembers"

kafka=$(service_pid kafka)
folder=$SERVICES
services_end
[ ! -e "$folder" ] || fail "the data folder is still there"
if kill -0 "$kafka" 2>/dev/null; then fail "Kafka is still running"; fi
echo "Kafka and Redis come up, keep, restart and go"
