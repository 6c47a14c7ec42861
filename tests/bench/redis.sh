#!/bin/sh
# Compares bench_redis with redis-benchmark: values of the same size over the same number of connections to one Redis, in
# turns. Prints the medians of the rounds and their ratio. redis-benchmark runs with one and with
# two commands in flight per connection (the tier has two), and its faster run counts.
#
#   tests/bench/redis.sh BUILD [CONNECTIONS [VALUE_MIB [VALUES [ROUNDS [SOCKET]]]]]
#
# SOCKET "unix" connects over a unix socket instead of TCP on loopback.
set -eu

build=$1
connections=${2:-4}
mib=${3:-4}
values=${4:-128}
rounds=${5:-5}
here=$(dirname "$0")
. "$here/../integration/services.sh"

redis_start --unixsocket "$SERVICES/redis.sock"
bytes=$((mib * 1048576 - 16))
url=$REDIS_URL
where="-h 127.0.0.1 -p $REDIS_PORT"
if [ "${6:-}" = unix ]; then
    url=unix://$SERVICES/redis.sock
    where="-s $SERVICES/redis.sock"
fi

flush() {
    redis-cli -h 127.0.0.1 -p "$REDIS_PORT" flushall >/dev/null
}

theirs() { # theirs PIPELINE
    # shellcheck disable=SC2086
    redis-benchmark $where -t set,get -d "$bytes" -c "$connections" -P "$1" -n $((values * 8)) -r "$values" --csv \
        2>/dev/null | awk -F'"' -v bytes="$bytes" -v depth="$1" \
        '$2 == "SET" || $2 == "GET" { printf "redis-benchmark-%d %s %.3f\n", depth, $2, $4 * bytes / 1e9 }'
    flush
}

ours() {
    "$build/bench_redis" "$url" "$connections" "$mib" "$values" 3 | tee -a "$SERVICES/ours" |
        awk '$1 == "SET" { print "millrace SET", $2; print "millrace GET", $5 }'
    flush
}

for _ in $(seq "$rounds"); do
    theirs 1
    ours
    theirs 2
done | tee "$SERVICES/figures"
tail -1 "$SERVICES/ours"
sort -k1,2 -k3n "$SERVICES/figures" | awk '
    { name = $1 " " $2; if (name != last) { n = 0; last = name } figures[name, n++] = $3; count[name] = n }
    function median(name) { return figures[name, int(count[name] / 2)] }
    END {
        for (k = split("SET GET", words, " "); k > 0; k--) {
            one = median("redis-benchmark-1 " words[k]); two = median("redis-benchmark-2 " words[k])
            best = one > two ? one : two
            mine = median("millrace " words[k])
            printf "median %s: millrace %.2f GB/s, redis-benchmark %.2f GB/s, %.2f of it\n", words[k], mine, best, mine / best
        }
    }'
