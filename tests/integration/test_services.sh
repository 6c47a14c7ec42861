#!/bin/sh
# Tests services.sh: the servers start, keep their data over a kill and a restart, and leave no
# files. Meanwhile millrace check reports on a group, on clocks and on a Redis.
set -eu
. "$(dirname "$0")/services.sh"
build=${MILLRACE_TOOLS:-build}

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

check() { # check OPTION...: what millrace check says, in $SERVICES/output
    "$build/millrace" check --model tests/golden/models/qwen2 --brokers "$KAFKA_BROKERS" --http off "$@" \
        >"$SERVICES/output" 2>&1 || true
}

says() { # says PATTERN OPTION...
    pattern=$1
    shift
    check "$@"
    grep -qE "$pattern" "$SERVICES/output" || fail "check $* does not say $pattern: $(cat "$SERVICES/output")"
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

"$build/millrace" topics create --brokers "$KAFKA_BROKERS" >"$SERVICES/output"
grep -q future "$SERVICES/output" && fail "records with timestamps in the future in a new topic"
says 'ok +group +millrace, 0 members'
kcat -b "$KAFKA_BROKERS" -G millrace -X group.instance.id=one millrace.requests >/dev/null 2>&1 &
echo $! >"$SERVICES/member.pid"
wait_for 30 member sh -c "$build/millrace check --brokers $KAFKA_BROKERS | grep -q 'millrace, 1 members, Stable'"
says 'warn +group +millrace has a member one' --group-instance one
service_stop member TERM
PYTHONPATH=$deps/python python3 -c "
import sys, time
from confluent_kafka import Producer
producer = Producer({'bootstrap.servers': sys.argv[1]})
producer.produce('millrace.requests', 'x', timestamp=int(time.time() * 1000) + 3600000)
producer.flush(30)" "$KAFKA_BROKERS"
says 'warn +topic +millrace.requests: has records whose timestamps are more than 5 seconds in the future'

says 'ok +redis .*, Redis [0-9.]+, 64 MiB, noeviction' --redis "$REDIS_URL"
grep -q 'warn  redis .*does not evict' "$SERVICES/output" || fail "noeviction: $(cat "$SERVICES/output")"
redis-cli -u "$REDIS_URL" acl setuser half on '>stone' '~mr1:*' +get +set +strlen +ping +echo +select +info >/dev/null
says 'FAIL +redis .*may not run del expire rpushx lrange,' --redis "redis://half:stone@127.0.0.1:$REDIS_PORT/0"

redis_stop
redis-cli -u "$REDIS_URL" ping >/dev/null 2>&1 && fail "Redis answers after it was stopped"
redis_restart
[ -z "$(redis-cli -u "$REDIS_URL" get key)" ] || fail "a restarted Redis remembers"

kafka=$(service_pid kafka)
folder=$SERVICES
services_end
[ ! -e "$folder" ] || fail "the data folder is still there"
if kill -0 "$kafka" 2>/dev/null; then fail "Kafka is still running"; fi
echo "Kafka and Redis start, keep their data, restart and stop"
