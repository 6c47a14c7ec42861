# Starts Apache Kafka and Redis for an integration test. Source this file and call the functions below; all
# servers are stopped and their data removed when the test ends.
#
#   . tests/integration/services.sh
#   kafka_start [secure]                 sets KAFKA_BROKERS; an Apache Kafka (KRaft, one node) on loopback, with the
#                                        lines of KAFKA_PROPERTIES in its configuration. secure: KAFKA_SASL (SCRAM and
#                                        PLAIN over TLS; user mill, password grindstone) and KAFKA_TLS (which requires a
#                                        client certificate) are set too, and SERVICES has certificates: ca.pem,
#                                        client.pem, and other-ca.pem, other-client.pem of another authority
#   kafka_topic NAME [PARTITIONS]        creates a topic, with tools/topic.c
#   kafka_run CLASS ARGUMENT…            runs a command-line tool of Kafka
#   redis_start [ARGUMENT…]              sets REDIS_PORT and REDIS_URL
#   kafka_stop, redis_stop, kafka_restart, redis_restart     ports and data stay the same
#   service_pid NAME                     process id, for a test that kills it (kafka, redis)
#
# The servers listen on free ports of the loopback interface. SERVICES is a new temporary folder with their data;
# the test may use it too. MILLRACE_DEPS: the folder with the Kafka jars; MILLRACE_TOOLS: that of the test programs.
#
# shellcheck shell=sh

SERVICES=$(mktemp -d)
deps=${MILLRACE_DEPS:-$(cd "$(dirname "$0")/../.." && pwd)/.deps}

services_end() {
    for name in kafka redis; do service_stop "$name" KILL; done
    rm -rf "$SERVICES"
}
trap services_end EXIT
trap 'exit 1' HUP INT TERM

service_pid() { # service_pid NAME
    cat "$SERVICES/$1.pid" 2>/dev/null
}

service_stop() { # service_stop NAME SIGNAL: sends the signal and waits until the process has ended
    pid=$(service_pid "$1") || return 0
    kill "-$2" "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    rm -f "$SERVICES/$1.pid"
}

# The kernel picks free ports; those of one call are distinct.
free_ports() { # free_ports COUNT
    python3 -c '
import socket, sys
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*[s.getsockname()[1] for s in held])' "$1"
}

wait_for() { # wait_for SECONDS NAME COMMAND…: retries COMMAND; prints the log of the server on timeout
    tries=$(($1 * 5))
    name=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        if [ "$tries" -le 0 ] || ! kill -0 "$(service_pid "$name")" 2>/dev/null; then
            echo "$name does not answer:" >&2
            tail -20 "$SERVICES/$name.log" >&2
            return 1
        fi
        sleep 0.2
    done
}

# --- Kafka -------------------------------------------------------------------------------------------

kafka_run() {
    java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$deps/kafka/*" "$@"
}

certificate() { # certificate NAME SUBJECT CA: NAME.pem and its key, signed by CA
    openssl req -newkey rsa:2048 -nodes -subj "/CN=$2" -keyout "$SERVICES/$1.key" -out "$SERVICES/$1.csr"
    echo "subjectAltName=DNS:localhost,IP:127.0.0.1" |
        openssl x509 -req -in "$SERVICES/$1.csr" -CA "$SERVICES/$3.pem" -CAkey "$SERVICES/$3.key" -CAcreateserial \
            -days 2 -extfile /dev/stdin -out "$SERVICES/$1.pem"
}

certificates() {
    for ca in ca other-ca; do
        openssl req -x509 -newkey rsa:2048 -nodes -subj "/CN=$ca" -days 2 -keyout "$SERVICES/$ca.key" \
            -out "$SERVICES/$ca.pem"
    done
    certificate broker localhost ca
    certificate client mill ca
    certificate other-client mill other-ca
    cat "$SERVICES/broker.key" "$SERVICES/broker.pem" >"$SERVICES/broker-store.pem"
}

# Two more listeners: SASL over TLS, and TLS with a client certificate.
kafka_secure() { # kafka_secure PORT PORT: prints the lines of configuration
    KAFKA_SASL=127.0.0.1:$1
    KAFKA_TLS=127.0.0.1:$2
    certificates >"$SERVICES/openssl.log" 2>&1 || {
        cat "$SERVICES/openssl.log" >&2
        return 1
    }
    kafka_listeners=",SASL_SSL://$KAFKA_SASL,SSL://$KAFKA_TLS"
    kafka_protocols=",SASL_SSL:SASL_SSL,SSL:SSL"
    set -- --add-scram 'SCRAM-SHA-256=[name=mill,password=grindstone]'
    kafka_format=$*
    cat >"$SERVICES/secure.properties" <<END
sasl.enabled.mechanisms=SCRAM-SHA-256,PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_mill="grindstone";
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.keystore.type=PEM
ssl.keystore.location=$SERVICES/broker-store.pem
ssl.truststore.type=PEM
ssl.truststore.location=$SERVICES/ca.pem
listener.name.ssl.ssl.client.auth=required
END
}

kafka_start() { # kafka_start [secure]
    kafka_listeners='' kafka_protocols='' kafka_format='' kafka_kind=${1:-}
    : >"$SERVICES/secure.properties"
    # shellcheck disable=SC2046
    set -- $(free_ports 4)
    [ "$kafka_kind" != secure ] || kafka_secure "$3" "$4" || return 1
    KAFKA_BROKERS=127.0.0.1:$1
    cat >"$SERVICES/kafka.properties" <<END
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$2
listeners=PLAINTEXT://127.0.0.1:$1,CONTROLLER://127.0.0.1:$2$kafka_listeners
advertised.listeners=PLAINTEXT://127.0.0.1:$1$kafka_listeners
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT$kafka_protocols
log.dirs=$SERVICES/kafka-data
num.partitions=4
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=16777216
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=2000
$(cat "$SERVICES/secure.properties")
${KAFKA_PROPERTIES:-}
END
    # shellcheck disable=SC2086
    kafka_run kafka.tools.StorageTool format -t 4L6g3nShT-eMCtK--X86sw $kafka_format \
        -c "$SERVICES/kafka.properties" >"$SERVICES/kafka.log" 2>&1 || {
        cat "$SERVICES/kafka.log" >&2
        return 1
    }
    kafka_restart
}

kafka_restart() { # starts the same node after kafka_stop or a kill
    service_stop kafka KILL
    java -Xms128m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$deps/kafka/*" \
        kafka.Kafka "$SERVICES/kafka.properties" >>"$SERVICES/kafka.log" 2>&1 </dev/null &
    echo $! >"$SERVICES/kafka.pid"
    wait_for 60 kafka kcat -b "$KAFKA_BROKERS" -L -m 1
}

kafka_stop() {
    service_stop kafka TERM
}

kafka_topic() { # kafka_topic NAME [PARTITIONS]
    "${MILLRACE_TOOLS:-build}/topic" "$KAFKA_BROKERS" "${2:-1}" "$1"
}

# --- Redis -------------------------------------------------------------------------------------------

redis_start() {
    REDIS_PORT=$(free_ports 1)
    REDIS_URL=redis://127.0.0.1:$REDIS_PORT/0
    REDIS_ARGUMENTS=$*
    redis_restart
}

redis_restart() {
    service_stop redis KILL
    # shellcheck disable=SC2086
    redis-server --bind 127.0.0.1 --port "$REDIS_PORT" --dir "$SERVICES" --save '' --appendonly no \
        $REDIS_ARGUMENTS >>"$SERVICES/redis.log" 2>&1 </dev/null &
    echo $! >"$SERVICES/redis.pid"
    wait_for 20 redis redis-cli -h 127.0.0.1 -p "$REDIS_PORT" ping
}

redis_stop() {
    service_stop redis TERM
}
