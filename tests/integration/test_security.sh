#!/bin/sh
# A worker that connects with TLS, SCRAM and PLAIN: correct settings work; wrong ones end with exit code 3 and one
# line that names the cause; no secret is printed. SIGHUP makes a worker read its password again.
set -eu
. "$(dirname "$0")/services.sh"

build=${MILLRACE_TOOLS:-build}
model=tests/golden/models/qwen2

fail() {
    echo "FAILED: $*" >&2
    cat "$SERVICES/worker.log" >&2
    exit 1
}

end() {
    service_stop worker KILL
    services_end
}
trap end EXIT

serve() { # serve BROKERS [PROPERTY...]
    brokers=$1
    shift
    for property; do
        shift
        set -- "$@" --kafka "$property"
    done
    ${launch:-} "$build/millrace" serve --model "$model" --brokers "$brokers" --http off --kv-memory 16MiB --threads 1 \
        --log-format json --broker-timeout 30s "$@" >"$SERVICES/worker.log" 2>&1
}

works() { # works WHAT BROKERS PROPERTY...: the worker must answer a request and exit with 0
    what=$1
    shift
    launch=exec serve "$@" &
    echo $! >"$SERVICES/worker.pid"
    wait_for 60 worker grep -q '"assigned":[1-9]' "$SERVICES/worker.log"
    brokers=$1
    shift
    for property; do
        shift
        set -- "$@" --kafka "$property"
    done
    "$build/millrace" send --brokers "$brokers" "$@" --timeout 60s max_tokens=4 "grain" >"$SERVICES/answer" \
        2>"$SERVICES/send.log" || fail "$what: no answer: $(cat "$SERVICES/send.log")"
    grep -q '^length' "$SERVICES/send.log" || grep -q length "$SERVICES/send.log" || fail "$what: $(cat "$SERVICES/send.log")"
    pid=$(service_pid worker)
    kill -TERM "$pid"
    code=0
    wait "$pid" || code=$?
    rm -f "$SERVICES/worker.pid"
    [ "$code" = 0 ] || fail "$what: exit code $code"
    hides_secrets "$what"
    echo "$what: works"
}

hides_secrets() {
    if grep -qE 'grindstone|millstone' "$SERVICES/worker.log"; then fail "$1: a secret is in the log"; fi
}

refused() { # refused WHAT TEXT BROKERS PROPERTY...: exit code 3 and one warning or error line, with TEXT
    what=$1
    text=$2
    shift 2
    code=0
    serve "$@" || code=$?
    [ "$code" = 3 ] || fail "$what: exit code $code, not 3"
    lines=$(grep -cE '"level":"(warn|error)"' "$SERVICES/worker.log")
    [ "$lines" = 1 ] || fail "$what: $lines lines"
    grep -E '"level":"error"' "$SERVICES/worker.log" | grep -qiE "$text" || fail "$what: not the reason: $text"
    hides_secrets "$what"
    echo "$what: $(sed -n 's/.*"level":"error","msg":"\(.*\)","worker.*/\1/p' "$SERVICES/worker.log")"
}

# Kafka 4 accepts SCRAM only from librdkafka 2.6.1 or later (pull request 4895). kcat uses the library of the worker.
scram_works=$(kcat -V | sed -n 's/.*librdkafka \([0-9.]*\).*/\1 2.6.1/p' | tr ' ' '\n' | sort -V | head -n 1 |
    sed 's/^2\.6\.1$/yes/')
kafka_start secure
umask 077 # a secret that other users can read causes an additional warning
echo grindstone >"$SERVICES/right"
echo millstone >"$SERVICES/wrong"
ca="ssl.ca.location=$SERVICES/ca.pem"
scram="security.protocol=sasl_ssl sasl.mechanism=SCRAM-SHA-256 sasl.username=mill"
plain="security.protocol=sasl_ssl sasl.mechanism=PLAIN sasl.username=mill"
tls="security.protocol=ssl ssl.certificate.location=$SERVICES/client.pem ssl.key.location=$SERVICES/client.key"
stranger="security.protocol=ssl ssl.certificate.location=$SERVICES/other-client.pem \
ssl.key.location=$SERVICES/other-client.key"

# shellcheck disable=SC2086
{
    works "PLAIN over TLS" "$KAFKA_SASL" $plain "$ca" "sasl.password=@$SERVICES/right"
    if [ "$scram_works" = yes ]; then
        works "SCRAM over TLS" "$KAFKA_SASL" $scram "$ca" "sasl.password=@$SERVICES/right"
        refused "wrong password" "authentication" "$KAFKA_SASL" $scram "$ca" "sasl.password=@$SERVICES/wrong"
    else
        refused "SCRAM with this librdkafka" "2.6.1" "$KAFKA_SASL" $scram "$ca" "sasl.password=@$SERVICES/right"
    fi
    works "TLS with a certificate" "$KAFKA_TLS" $tls "$ca"
    refused "wrong password" "authentication" "$KAFKA_SASL" $plain "$ca" "sasl.password=@$SERVICES/wrong"
    refused "unknown user" "authentication" "$KAFKA_SASL" security.protocol=sasl_ssl sasl.mechanism=PLAIN \
        sasl.username=nobody "$ca" "sasl.password=@$SERVICES/right"
    refused "broker's certificate of another authority" "certificate" "$KAFKA_SASL" $plain \
        "ssl.ca.location=$SERVICES/other-ca.pem" "sasl.password=@$SERVICES/right"
    refused "own certificate of another authority" "certificate|SSL" "$KAFKA_TLS" $stranger "$ca"
    refused "no certificate" "certificate|SSL" "$KAFKA_TLS" security.protocol=ssl "$ca"
}

rereads() { # rereads BROKERS PROPERTY...: the password in $SERVICES/changing may change, and SIGHUP says so
    cp "$SERVICES/right" "$SERVICES/changing"
    launch=exec serve "$@" &
    echo $! >"$SERVICES/worker.pid"
    wait_for 60 worker grep -q '"assigned":[1-9]' "$SERVICES/worker.log"
    cp "$SERVICES/wrong" "$SERVICES/changing"
    kill -HUP "$(service_pid worker)"
    wait_for 10 worker grep -q 'the next login to Kafka' "$SERVICES/worker.log"
    if grep -q 'uthentication fail' "$SERVICES/worker.log"; then fail "SIGHUP closes a connection"; fi
    kafka_stop
    kafka_restart
    wait_for 30 worker grep -qi 'authentication fail' "$SERVICES/worker.log"
    cp "$SERVICES/right" "$SERVICES/changing"
    kill -HUP "$(service_pid worker)"
    brokers=$1
    shift
    for property; do
        shift
        set -- "$@" --kafka "$property"
    done
    "$build/millrace" send --brokers "$brokers" "$@" --timeout 60s max_tokens=4 "grain" >"$SERVICES/answer" \
        2>"$SERVICES/send.log" || fail "after SIGHUP: no answer: $(cat "$SERVICES/send.log")"
    hides_secrets "SIGHUP"
    service_stop worker KILL
    echo "another password after SIGHUP: refused, and the right one works again"
}

# shellcheck disable=SC2086
rereads "$KAFKA_SASL" $plain "$ca" "sasl.password=@$SERVICES/changing"

MILLRACE_SECRET=grindstone "$build/millrace" serve --print-config --brokers x:1 --model "$model" \
    --kafka sasl.password=env:MILLRACE_SECRET --kafka "ssl.key.password=@$SERVICES/right" >"$SERVICES/worker.log"
hides_secrets "--print-config"
grep -q 'sasl.password=\*\*\*' "$SERVICES/worker.log" || fail "--print-config does not show that there is a password"
echo "--print-config: masked"
