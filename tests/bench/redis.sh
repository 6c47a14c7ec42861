#!/bin/sh
# The blob path beside redis-benchmark: values of the same size over as many connections, one Redis, one run.
#
#   tests/bench/redis.sh BUILD [CONNECTIONS [VALUE_MIB [VALUES]]]
set -eu

build=$1
connections=${2:-4}
mib=${3:-4}
values=${4:-48}
here=$(dirname "$0")
. "$here/../integration/services.sh"

redis_start
bytes=$((mib * 1048576 - 16))
for _ in 1 2 3; do
    redis-benchmark -h 127.0.0.1 -p "$REDIS_PORT" -t set,get -d "$bytes" -c "$connections" -n $((values * 4)) \
        -r "$values" --csv 2>/dev/null | awk -F'"' -v bytes="$bytes" \
        '$2 == "SET" || $2 == "GET" { printf "redis-benchmark %s %.2f GB/s   ", $2, $4 * bytes / 1e9 } END { print "" }'
    redis-cli -h 127.0.0.1 -p "$REDIS_PORT" flushall >/dev/null
    "$build/bench_redis" "$REDIS_URL" "$connections" "$mib" "$values" 3
    redis-cli -h 127.0.0.1 -p "$REDIS_PORT" flushall >/dev/null
done
