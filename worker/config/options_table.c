#include "worker/config/options_table.h"

#include <string.h>

#define BIT(command) (1u << MR_COMMAND_##command)
#define ALL          ((1u << MR_COMMAND_COUNT) - 1)
#define ENGINE       (BIT(SERVE) | BIT(DEMO) | BIT(BENCH))
#define WORKER       (BIT(SERVE) | BIT(DEMO))
#define CLIENT       (BIT(SEND) | BIT(TAIL) | BIT(CANCEL) | BIT(BENCH) | BIT(REPLAY))
#define KAFKA        (BIT(SERVE) | CLIENT | BIT(CHECK))
#define MODEL        (ENGINE | BIT(CHECK) | BIT(TOKENIZE))
#define U32_MAX      4294967295.0

#define AT(field) offsetof(struct mr_config, field)

/* clang-format off */
/* name, kind, field, default, commands, min, max, choices, value, help, flag only */
const struct mr_option mr_options[] = {
    {"config", MR_OPTION_TEXT, AT(config), "", ALL, 0, 0, NULL, "FILE", "YAML file with any of these options", false},
    {"print-config", MR_OPTION_BOOL, AT(print_config), "false", ALL, 0, 0, NULL, NULL, "Print every value and where it came from, then exit", true},
    {"help", MR_OPTION_BOOL, AT(help), "false", ALL, 0, 0, NULL, NULL, "Print this and exit", true},

    {"model", MR_OPTION_TEXT, AT(model), "", MODEL, 0, 0, NULL, "PATH", "GGUF file or Hugging Face folder", false},
    {"model-name", MR_OPTION_TEXT, AT(model_name), "", WORKER | BIT(CHECK), 0, 0, NULL, "NAME", "Name of the model in records; the file's name unless given", false},
    {"device", MR_OPTION_TEXT, AT(device), "cpu", ENGINE, 0, 0, NULL, "DEVICE", "cpu, cuda or cuda:N", false},
    {"dtype", MR_OPTION_TEXT, AT(dtype), "auto", ENGINE, 0, 0, "auto|fp32|bf16|fp16|int8|int4", "TYPE", "Number type of the weights", false},
    {"threads", MR_OPTION_U32, AT(threads), "0", ENGINE, 0, 1024, NULL, "N", "Threads that compute; 0 is one for each core", false},
    {"kv-memory", MR_OPTION_BYTES, AT(kv_memory_bytes), "2GiB", ENGINE, 1048576, 1e15, NULL, "SIZE", "Memory of the KV block pool", false},
    {"context-tokens", MR_OPTION_U32, AT(context_tokens), "0", ENGINE, 0, U32_MAX, NULL, "N", "Longest sequence; 0 is the model's own length", false},
    {"max-sequences", MR_OPTION_U32, AT(max_sequences), "64", ENGINE, 1, 4096, NULL, "N", "Sequences that run at the same time", false},
    {"chunk-tokens", MR_OPTION_I32, AT(chunk_tokens), "512", ENGINE, -1, 1048576, NULL, "N", "Prompt tokens of one prefill chunk; 0 turns chunking off", false},
    {"step-tokens", MR_OPTION_U32, AT(step_tokens), "2048", ENGINE, 1, 1048576, NULL, "N", "Most rows of one step", false},
    {"chunk-requests", MR_OPTION_U32, AT(chunk_requests), "1", ENGINE, 1, 4096, NULL, "N", "Prompts that are in chunks at the same time", false},
    {"step-target-ms", MR_OPTION_U32, AT(step_target_ms), "0", ENGINE, 0, 60000, NULL, "MS", "Step time to aim at: smaller chunks, shorter gaps between tokens; 0 is none", false},
    {"deterministic", MR_OPTION_BOOL, AT(deterministic), "false", ENGINE, 0, 0, NULL, NULL, "A row's result does not depend on what else is in the batch; on the CPU always so", false},
    {"prefix-cache", MR_OPTION_BOOL, AT(prefix_cache), "true", ENGINE, 0, 0, NULL, NULL, "Reuse the KV of prompts that begin alike", false},
    {"prompt-entries", MR_OPTION_U32, AT(prompt_entries), "100", ENGINE, 0, 1048576, NULL, "N", "Complete prompts kept with their logits", false},
    {"prompt-entry-ttl", MR_OPTION_DURATION, AT(prompt_entry_ttl_ns), "300s", ENGINE, 0, 1e18, NULL, "TIME", "How long such an entry lives after its last use", false},
    {"session-keep", MR_OPTION_DURATION, AT(session_keep_ns), "600s", ENGINE, 0, 1e18, NULL, "TIME", "How long the KV of a request with a session outlasts that of others", false},
    {"session-share", MR_OPTION_U32, AT(session_share), "50", ENGINE, 0, 100, NULL, "PERCENT", "Most of the KV pool that sessions may keep", false},
    {"default-max-tokens", MR_OPTION_U32, AT(default_max_tokens), "256", WORKER, 1, 2147483647.0, NULL, "N", "max_tokens of a request that names none", false},
    {"queue-requests", MR_OPTION_U32, AT(queue_requests), "256", WORKER, 1, 1048576, NULL, "N", "Requests waiting in this worker; the rest wait in Kafka", false},
    {"queue-bytes", MR_OPTION_BYTES, AT(queue_bytes), "256MiB", WORKER, 1048576, 1e15, NULL, "SIZE", "Memory of the waiting requests", false},
    {"queue-pools", MR_OPTION_U32, AT(queue_pools), "4", WORKER, 0, 1048576, NULL, "N", "Predicted KV of the waiting requests, in sizes of the pool; 0 is no bound", false},
    {"tenant-weight", MR_OPTION_LIST, AT(tenant_weight), "", WORKER, 0, 0, NULL, "TENANT=N", "A tenant's part of the engine beside the others; repeatable; 1 unless given", false},
    {"deadline-admission", MR_OPTION_BOOL, AT(deadline_admission), "false", WORKER, 0, 0, NULL, NULL, "Refuse at its start what cannot be done before its deadline", false},
    {"max-record-bytes", MR_OPTION_BYTES, AT(max_record_bytes), "1MiB", WORKER, 64, 67108864, NULL, "SIZE", "Largest request record", false},

    {"brokers", MR_OPTION_TEXT, AT(brokers), "", KAFKA, 0, 0, NULL, "HOST:PORT", "Kafka bootstrap servers, separated by commas", false},
    {"prefix", MR_OPTION_TEXT, AT(prefix), "millrace", KAFKA, 0, 0, NULL, "NAME", "Prefix of the topics", false},
    {"group", MR_OPTION_TEXT, AT(group), "millrace", BIT(SERVE) | BIT(CHECK), 0, 0, NULL, "NAME", "Consumer group", false},
    {"requests-topic", MR_OPTION_LIST, AT(requests_topic), "", KAFKA, 0, 0, NULL, "TOPIC[,priority=N][,weight=N][,tenant=NAME][,queue=TIME][,run=TIME][,strict]", "Request topic; repeatable; <prefix>.requests unless given", false},
    {"tokens-topic", MR_OPTION_TEXT, AT(tokens_topic), "", KAFKA, 0, 0, NULL, "TOPIC", "Instead of <prefix>.tokens", false},
    {"results-topic", MR_OPTION_TEXT, AT(results_topic), "", KAFKA, 0, 0, NULL, "TOPIC", "Instead of <prefix>.results", false},
    {"cancel-topic", MR_OPTION_TEXT, AT(cancel_topic), "", KAFKA, 0, 0, NULL, "TOPIC", "Instead of <prefix>.cancel", false},
    {"dlq-topic", MR_OPTION_TEXT, AT(dlq_topic), "", KAFKA, 0, 0, NULL, "TOPIC", "Instead of <prefix>.dlq", false},
    {"reply-topic", MR_OPTION_LIST, AT(reply_topics), "", BIT(SERVE) | BIT(CHECK), 0, 0, NULL, "TOPIC", "Topic that kafka_replyTopic may name; repeatable", false},
    {"kafka", MR_OPTION_LIST, AT(kafka), "", KAFKA, 0, 0, NULL, "NAME=VALUE", "Any librdkafka property; repeatable. VALUE may be @FILE or env:NAME", false},
    {"delivery", MR_OPTION_CHOICE, AT(delivery), "at-least-once", BIT(SERVE), 0, 0, "at-least-once|exactly-once", "MODE", "How results and offsets are joined", false},
    {"group-instance", MR_OPTION_TEXT, AT(group_instance), "", BIT(SERVE), 0, 0, NULL, "NAME", "Static member of the group: a worker that comes back in time keeps its partitions", false},
    {"foreign-commits", MR_OPTION_CHOICE, AT(foreign_commits), "refuse", BIT(SERVE), 0, 0, "refuse|ignore", "MODE", "Offsets that another application committed for this group: end, or go on from there", false},
    {"on-revoke", MR_OPTION_CHOICE, AT(on_revoke), "drop", BIT(SERVE), 0, 0, "drop|drain", "MODE", "Running requests of a partition that goes to another worker", false},
    {"revoke-timeout", MR_OPTION_DURATION, AT(revoke_timeout_ns), "10s", BIT(SERVE), 0, 3.6e12, NULL, "TIME", "How long drain lets them run; half of --poll-interval-max at most", false},
    {"strict", MR_OPTION_BOOL, AT(strict), "false", WORKER, 0, 0, NULL, NULL, "Reject requests with unknown fields, on every request topic", false},
    {"commit-interval", MR_OPTION_DURATION, AT(commit_interval_ns), "100ms", BIT(SERVE), 1e6, 6e10, NULL, "TIME", "Shortest time between offset commits", false},
    {"drain-timeout", MR_OPTION_DURATION, AT(drain_timeout_ns), "25s", WORKER, 0, 3.6e12, NULL, "TIME", "How long SIGTERM lets running requests finish", false},
    {"session-timeout", MR_OPTION_DURATION, AT(session_timeout_ns), "45s", BIT(SERVE), 1e9, 3.6e12, NULL, "TIME", "After which the group gives a silent worker up", false},
    {"broker-timeout", MR_OPTION_DURATION, AT(broker_timeout_ns), "5m", BIT(SERVE), 0, 8.64e13, NULL, "TIME", "How long a start waits for a broker that does not answer", false},
    {"poll-interval-max", MR_OPTION_DURATION, AT(poll_interval_max_ns), "5m", BIT(SERVE), 1e9, 8.64e13, NULL, "TIME", "Longest time between polls", false},
    {"token-linger", MR_OPTION_DURATION, AT(token_linger_ns), "1ms", WORKER, 0, 1e9, NULL, "TIME", "How long token records may wait for company", false},
    {"attempts-max", MR_OPTION_U32, AT(attempts_max), "2", BIT(SERVE), 1, 1000, NULL, "N", "Attempts before a request that ends the process is dead-lettered", false},
    {"worker-id", MR_OPTION_TEXT, AT(worker_id), "", WORKER, 0, 0, NULL, "NAME", "Name of this worker in results; host and process unless given", false},

    {"redis", MR_OPTION_TEXT, AT(redis), "", BIT(SERVE) | BIT(CHECK), 0, 0, NULL, "URL", "redis://[user:password@]HOST:PORT/DB or unix:///PATH", false},
    {"redis-password-file", MR_OPTION_TEXT, AT(redis_password_file), "", BIT(SERVE) | BIT(CHECK), 0, 0, NULL, "FILE", "Its first line is the password, instead of the URL's", false},
    {"redis-key-file", MR_OPTION_TEXT, AT(redis_key_file), "", BIT(SERVE) | BIT(CHECK), 0, 0, NULL, "FILE", "Encrypt blocks: lines ID (1-255) and 64 hex digits; the first key writes, all read", false},
    {"redis-ca", MR_OPTION_TEXT, AT(redis_ca), "", BIT(SERVE) | BIT(CHECK), 0, 0, NULL, "FILE", "Authorities for rediss://; the system's unless given", false},
    {"redis-cert", MR_OPTION_TEXT, AT(redis_cert), "", BIT(SERVE) | BIT(CHECK), 0, 0, NULL, "FILE", "Certificate shown to Redis", false},
    {"redis-cert-key", MR_OPTION_TEXT, AT(redis_cert_key), "", BIT(SERVE) | BIT(CHECK), 0, 0, NULL, "FILE", "Its private key", false},
    {"redis-connections", MR_OPTION_U32, AT(redis_connections), "4", BIT(SERVE), 1, 16, NULL, "N", "Connections that carry blocks; one more is for look-ups", false},
    {"redis-timeout", MR_OPTION_DURATION, AT(redis_timeout_ns), "25ms", BIT(SERVE), 1e6, 6e10, NULL, "TIME", "For a look-up; then everything is computed here", false},
    {"redis-transfer-timeout", MR_OPTION_DURATION, AT(redis_transfer_timeout_ns), "2s", BIT(SERVE), 1e6, 6e11, NULL, "TIME", "For a block on its way", false},
    {"redis-ttl", MR_OPTION_DURATION, AT(redis_ttl_ns), "24h", BIT(SERVE), 0, 3.2e16, NULL, "TIME", "How long a block is kept after its last use; 0 leaves that to Redis", false},
    {"redis-store-bytes", MR_OPTION_BYTES, AT(redis_store_bytes), "256MiB", BIT(SERVE), 1048576, 1e12, NULL, "SIZE", "Blocks that may wait to be stored; more are dropped", false},
    {"redis-write-budget", MR_OPTION_BYTES, AT(redis_write_budget), "0", BIT(SERVE), 0, 1e12, NULL, "SIZE", "Most bytes a second that a tenant may store; 0 is no limit", false},
    {"redis-kv", MR_OPTION_CHOICE, AT(redis_kv), "exact", BIT(SERVE), 0, 0, "exact|int8", "FORM", "KV in Redis: as computed, or in int8, which halves it and may change answers", false},
    {"redis-second-touch", MR_OPTION_BOOL, AT(redis_second_touch), "false", BIT(SERVE), 0, 0, NULL, NULL, "Store a block only when it is computed for the second time", false},
    {"resume", MR_OPTION_BOOL, AT(resume), "true", BIT(SERVE), 0, 0, NULL, NULL, "Keep the tokens of running requests in Redis: the next attempt goes on behind them", false},
    {"resume-ttl", MR_OPTION_DURATION, AT(resume_ttl_ns), "1h", BIT(SERVE), 1e9, 3.2e16, NULL, "TIME", "How long what is known of a request is kept after its last token", false},
    {"resume-bytes", MR_OPTION_BYTES, AT(resume_bytes), "64MiB", BIT(SERVE), 65536, 1e12, NULL, "SIZE", "Most that is kept for the requests that run here", false},
    {"http", MR_OPTION_TEXT, AT(http), "127.0.0.1:9464", BIT(SERVE), 0, 0, NULL, "HOST:PORT", "Where /livez, /readyz and /metrics are; off for none", false},
    {"log-format", MR_OPTION_CHOICE, AT(log_format), "auto", ALL, 0, 0, "auto|text|json", "FORMAT", "auto is text on a terminal, JSON lines otherwise", false},
    {"log-level", MR_OPTION_CHOICE, AT(log_level), "info", ALL, 0, 0, "error|warn|info|debug", "LEVEL", "Least severe message that is logged", false},
    {"stats-interval", MR_OPTION_DURATION, AT(stats_interval_ns), "10s", WORKER, 0, 3.6e12, NULL, "TIME", "Between lines of figures while there is work; 0 is none", false},

    {"id", MR_OPTION_TEXT, AT(id), "", BIT(SEND), 0, 0, NULL, "ID", "Request id; a random one unless given", false},
    {"msgpack", MR_OPTION_BOOL, AT(msgpack), "false", CLIENT, 0, 0, NULL, NULL, "Write requests in msgpack instead of JSON", false},
    {"json", MR_OPTION_BOOL, AT(json), "false", CLIENT | BIT(TOP) | BIT(CHECK) | BIT(TOKENIZE) | BIT(DEMO), 0, 0, NULL, NULL, "Print JSON", false},
    {"wait", MR_OPTION_BOOL, AT(wait), "true", BIT(SEND), 0, 0, NULL, NULL, "Wait for the answer", false},
    {"stream", MR_OPTION_BOOL, AT(stream), "true", BIT(SEND) | BIT(BENCH), 0, 0, NULL, NULL, "Ask for token records", false},
    {"timeout", MR_OPTION_DURATION, AT(timeout_ns), "0", BIT(SEND) | BIT(TAIL) | BIT(BENCH) | BIT(CHECK) | BIT(REPLAY) | BIT(CANCEL), 0, 8.64e13, NULL, "TIME", "Give up after this long; 0 is never", false},
    {"from-beginning", MR_OPTION_BOOL, AT(from_beginning), "false", BIT(TAIL), 0, 0, NULL, NULL, "Start with the oldest record", false},
    {"partitions", MR_OPTION_U32, AT(partitions), "4", BIT(BROKER) | BIT(DEMO), 1, 1024, NULL, "N", "Partitions of each topic", false},
    {"broker-count", MR_OPTION_U32, AT(broker_count), "1", BIT(BROKER), 1, 16, NULL, "N", "Brokers of the embedded cluster", false},
    {"interval", MR_OPTION_DURATION, AT(interval_ns), "1s", BIT(TOP), 1e8, 3.6e12, NULL, "TIME", "Between refreshes", false},
    {"engine", MR_OPTION_BOOL, AT(engine), "false", BIT(BENCH), 0, 0, NULL, NULL, "Measure the engine alone, without Kafka", false},
    {"cache", MR_OPTION_BOOL, AT(cache), "false", BIT(BENCH), 0, 0, NULL, NULL, "Measure what the prefix cache is worth, without Kafka: --requests that begin with one of 20 texts", false},
    {"mix", MR_OPTION_BOOL, AT(mix), "false", BIT(BENCH), 0, 0, NULL, NULL, "Prompts of 32 to 512 tokens and answers of 64, --requests of them", false},
    {"output", MR_OPTION_TEXT, AT(output), "", BIT(BENCH) | BIT(REPLAY), 0, 0, NULL, "FILE", "Where the figures are written", false},
    {"requests", MR_OPTION_U32, AT(requests), "200", BIT(BENCH), 1, 10000000, NULL, "N", "Requests to send", false},
    {"concurrency", MR_OPTION_U32, AT(concurrency), "0", BIT(BENCH), 0, 1048576, NULL, "N", "Most requests in flight; 0 is no limit", false},
    {"rate", MR_OPTION_DOUBLE, AT(rate), "0", BIT(BENCH) | BIT(REPLAY), 0, 1e6, NULL, "R", "Requests a second, Poisson arrivals; 0 sends all at once", false},
    {"prompt-tokens", MR_OPTION_U32, AT(prompt_tokens), "512", BIT(BENCH), 1, 1048576, NULL, "N", "Tokens of a prompt", false},
    {"output-tokens", MR_OPTION_U32, AT(output_tokens), "128", BIT(BENCH), 1, 1048576, NULL, "N", "Tokens of an answer", false},
    {"warmup", MR_OPTION_U32, AT(warmup), "1", BIT(BENCH), 0, 1000, NULL, "N", "Requests to the fleet before those that are counted", false},
    {"repetitions", MR_OPTION_U32, AT(repetitions), "5", BIT(BENCH), 1, 1000, NULL, "N", "Runs of each measurement of --engine", false},
    {"seed", MR_OPTION_U64, AT(seed), "1", BIT(BENCH), 0, 1.8e19, NULL, "N", "Seed of the prompts and arrivals", false},
    {"decode", MR_OPTION_BOOL, AT(decode), "false", BIT(TOKENIZE), 0, 0, NULL, NULL, "The arguments are ids: print their text", false},
    {"add-special", MR_OPTION_BOOL, AT(add_special), "true", BIT(TOKENIZE), 0, 0, NULL, NULL, "Add the model's own begin and end tokens", false},
    {"parse-special", MR_OPTION_BOOL, AT(parse_special), "true", BIT(TOKENIZE), 0, 0, NULL, NULL, "Read special tokens written in the text", false},
};
/* clang-format on */

const size_t mr_option_count = sizeof mr_options / sizeof mr_options[0];

#define MANY ((size_t)1 << 20)

const struct mr_command_entry mr_commands[MR_COMMAND_COUNT] = {
    [MR_COMMAND_HELP] = {"help", "[COMMAND]", "Explain a command", 0, 1},
    [MR_COMMAND_VERSION] = {"version", "", "Print the version", 0, 0},
    [MR_COMMAND_SERVE] = {"serve", "", "Answer the requests of a Kafka topic", 0, 0},
    [MR_COMMAND_DEMO] = {"demo", "[PROMPT...]", "Broker, worker and producer in one process", 0,
                         MANY},
    [MR_COMMAND_BROKER] = {"broker", "", "Run the embedded broker alone", 0, 0},
    [MR_COMMAND_SEND] = {"send", "[FIELD=VALUE...] PROMPT...",
                         "Publish a request, print the answer", 0, MANY},
    [MR_COMMAND_TAIL] = {"tail", "[ID...]", "Print tokens and results as they come", 0, MANY},
    [MR_COMMAND_CANCEL] = {"cancel", "ID...", "Cancel requests", 1, MANY},
    [MR_COMMAND_TOP] = {"top", "[HOST:PORT...]", "One live screen for a fleet", 0, MANY},
    [MR_COMMAND_BENCH] = {"bench", "", "Measure a fleet, or the engine alone", 0, 0},
    [MR_COMMAND_CHECK] = {"check", "", "Check configuration, model and servers", 0, 0},
    [MR_COMMAND_TOKENIZE] = {"tokenize", "[TEXT...]", "Show the token ids of a text", 0, MANY},
    [MR_COMMAND_REPLAY] = {"replay", "FILE", "Send recorded requests again", 1, 1},
    [MR_COMMAND_MAN] = {"man", "", "Print the manual page", 0, 0},
    [MR_COMMAND_COMPLETION] = {"completion", "", "Print the completion for bash", 0, 0},
};

static bool same_name(const char *option, const char *written)
{
    for (; *option && *written; option++, written++)
        if (*option != (*written == '_' ? '-' : *written)) return false;
    return *option == *written;
}

const struct mr_option *mr_option_find(const char *name)
{
    for (size_t i = 0; i < mr_option_count; i++)
        if (same_name(mr_options[i].name, name)) return &mr_options[i];
    return NULL;
}

#define NAME_BYTES_MAX ((size_t)32)

/* Levenshtein's edit distance, one row at a time (Wagner and Fischer 1974). */
static size_t distance(const char *a, const char *b)
{
    size_t row[NAME_BYTES_MAX + 1];
    size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length > NAME_BYTES_MAX || b_length > NAME_BYTES_MAX) return NAME_BYTES_MAX;
    for (size_t k = 0; k <= b_length; k++)
        row[k] = k;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t k = 1; k <= b_length; k++) {
            size_t replace = diagonal + (a[i - 1] != b[k - 1]);
            diagonal = row[k];
            size_t shorter = row[k] < row[k - 1] ? row[k] : row[k - 1];
            row[k] = shorter + 1 < replace ? shorter + 1 : replace;
        }
    }
    return row[b_length];
}

/* Keeps the nearer of two candidates. */
static void consider(const char *candidate, const char *written, const char **best, size_t *least)
{
    size_t length = strlen(candidate);
    size_t steps = distance(candidate, written);
    size_t allowed = length < 6 ? 2 : length / 3;
    if (steps > allowed || steps >= *least) return;
    *least = steps;
    *best = candidate;
}

const char *mr_option_nearest(const char *name, uint32_t commands)
{
    const char *best = NULL;
    size_t least = NAME_BYTES_MAX;
    for (size_t i = 0; i < mr_option_count; i++)
        if (mr_options[i].commands & commands) consider(mr_options[i].name, name, &best, &least);
    return best;
}

const char *mr_command_nearest(const char *name)
{
    const char *best = NULL;
    size_t least = NAME_BYTES_MAX;
    for (size_t i = 0; i < MR_COMMAND_COUNT; i++)
        consider(mr_commands[i].name, name, &best, &least);
    return best;
}
