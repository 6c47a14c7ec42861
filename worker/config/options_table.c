#include "worker/config/options_table.h"

#include <string.h>

/* The set of one command. `check` takes every option of `serve`, because it checks the
 * configuration of a worker. */
#define BIT(command)                                                                               \
    (1u << MR_COMMAND_##command |                                                                  \
     (MR_COMMAND_##command == MR_COMMAND_SERVE ? 1u << MR_COMMAND_CHECK : 0u))
#define ALL        ((1u << MR_COMMAND_COUNT) - 1)
#define PRINTING   (BIT(HELP) | BIT(VERSION) | BIT(MAN) | BIT(COMPLETION))
#define CONFIGURED (ALL & ~PRINTING) /* commands that have a configuration */
#define WORKER     (BIT(SERVE) | BIT(DEMO))
#define ENGINE     (WORKER | BIT(BENCH))
#define MODEL      (ENGINE | BIT(TOKENIZE))
#define ASKING     (BIT(SEND) | BIT(BENCH)) /* publish requests, read answers */
#define KAFKA      (BIT(SERVE) | ASKING | BIT(TAIL) | BIT(CANCEL) | BIT(TOPICS) | BIT(REPLAY) | BIT(TOP))
#define U32_MAX    4294967295.0

#define AT(field) offsetof(struct mr_config, field)

/* clang-format off */
/* columns: name, kind, field, default, commands, min, max, choices, value, help, flag only */
const struct mr_option mr_options[] = {
    {"config", MR_OPTION_TEXT, AT(config), "", CONFIGURED, 0, 0, NULL, "FILE", "YAML file that sets any of these options; a flag or an environment variable overrides it", false},
    {"print-config", MR_OPTION_BOOL, AT(print_config), "false", CONFIGURED, 0, 0, NULL, NULL, "Print the value of every option and where the value comes from, then exit", true},
    {"help", MR_OPTION_BOOL, AT(help), "false", ALL, 0, 0, NULL, NULL, "Print this help and exit", true},

    {"model", MR_OPTION_TEXT, AT(model), "", MODEL, 0, 0, NULL, "PATH", "Model to serve: a GGUF file or a Hugging Face model folder", false},
    {"model-name", MR_OPTION_TEXT, AT(model_name), "", WORKER, 0, 0, NULL, "NAME", "Model name that requests and results carry; by default the name of the model's file without .gguf", false},
    {"chat-template", MR_OPTION_TEXT, AT(chat_template), "", WORKER | BIT(TOKENIZE), 0, 0, NULL, "FILE", "Jinja template for messages in place of the model's own", false},
    {"device", MR_OPTION_TEXT, AT(device), "cpu", ENGINE, 0, 0, NULL, "DEVICE", "Device that computes: cpu, cuda or cuda:N", false},
    {"backend", MR_OPTION_TEXT, AT(backend), "auto", ENGINE, 0, 0, "auto|cpu|torch", "NAME", "Code that computes: our CPU kernels (cpu) or LibTorch's operators (torch); auto is torch on a GPU and for fp16, and cpu otherwise", false},
    {"cuda-kernels", MR_OPTION_TEXT, AT(cuda_kernels), "auto", ENGINE, 0, 0, "auto|off", "NAME", "Kernels on a GPU: auto is our own where this program was built with them (make gpu-bundle, docker/Dockerfile.cuda), off is LibTorch's operators only", false},
    {"cuda-graphs", MR_OPTION_TEXT, AT(cuda_graphs), "auto", ENGINE, 0, 0, "auto|off", "NAME", "Decode steps on a GPU: auto records them once at the start, as CUDA graphs, where our own kernels compute them; off enqueues each of their kernels", false},
    {"dtype", MR_OPTION_TEXT, AT(dtype), "auto", ENGINE, 0, 0, "auto|fp32|bf16|fp16|int8|int4", "TYPE", "Number type of the weights; auto is bf16, but the backend cpu keeps the 4 to 8 bits of a GGUF file and the 4 bits of AWQ and GPTQ. int8 and int4 quantize any model at start. The backend cpu offers all but fp16, torch all but int8 and int4", false},
    {"kv-dtype", MR_OPTION_CHOICE, AT(kv_dtype), "auto", ENGINE, 0, 0, "auto|int8", "TYPE", "Number type of K and V in the KV block pool: auto is what attention computes with (bf16 unless --dtype says fp32 or fp16); int8 holds nearly twice the tokens of bf16 in the same memory and changes logits by up to 2.5 % (root mean square). int8 is for the backend cpu", false},
    {"threads", MR_OPTION_U32, AT(threads), "0", ENGINE, 0, 256, NULL, "N", "Threads that compute on the CPU; 0 is one per core, at most the CPU quota of the control group", false},
    {"kv-memory", MR_OPTION_BYTES, AT(kv_memory_bytes), "2GiB", ENGINE, 1048576, 1e15, NULL, "SIZE", "Memory of the KV block pool, which bounds the tokens of all running sequences together; the default takes at most half of what the weights leave of the memory or of the control group's limit, and on a GPU what fits there", false},
    {"context-tokens", MR_OPTION_U32, AT(context_tokens), "0", ENGINE, 0, U32_MAX, NULL, "N", "Longest sequence in tokens, prompt and output together; 0 is the length the model was trained for", false},
    {"max-sequences", MR_OPTION_U32, AT(max_sequences), "64", ENGINE, 1, 4096, NULL, "N", "Most sequences in the running batch", false},
    {"chunk-tokens", MR_OPTION_I32, AT(chunk_tokens), "512", ENGINE, -1, 1048576, NULL, "N", "Prompt tokens that one prefill chunk computes: larger is faster prefill, smaller is shorter gaps between tokens of running answers; 0 computes a prompt in one step", false},
    {"step-tokens", MR_OPTION_U32, AT(step_tokens), "2048", ENGINE, 1, 1048576, NULL, "N", "Most tokens that one step computes, prefill and decode together", false},
    {"chunk-requests", MR_OPTION_U32, AT(chunk_requests), "1", ENGINE, 1, 4096, NULL, "N", "Most long prompts in chunked prefill at the same time: more share the chunk, fewer end sooner one after another; prompts that lack a KV block or less and more urgent ones start beside them in any case", false},
    {"step-target-ms", MR_OPTION_U32, AT(step_target_ms), "auto", ENGINE, 0, 60000, "auto", "MS", "Step time to aim for, in milliseconds: beside running answers prefill chunks shrink until these get a token about this often; auto is 100 ms, 4 times a step without prefill, or a step with 24 prefill tokens, whichever is longest; 0 is no target", false},
    {"speculation", MR_OPTION_CHOICE, AT(speculation), "auto", ENGINE, 0, 0, "auto|off", "MODE", "Several tokens of an answer in one step, where its text repeats the prompt or itself or the grammar leaves no choice; answers stay the same. auto does so with --backend cpu while it saves time", false},
    {"deterministic", MR_OPTION_BOOL, AT(deterministic), "false", ENGINE, 0, 0, NULL, NULL, "Make an answer independent of the other requests in the batch, at some speed on a GPU; the CPU always does", false},
    {"prefix-cache", MR_OPTION_BOOL, AT(prefix_cache), "true", ENGINE, 0, 0, NULL, NULL, "Reuse the KV blocks of an earlier prompt that begins with the same tokens", false},
    {"prompt-entries", MR_OPTION_U32, AT(prompt_entries), "100", ENGINE, 0, 1048576, NULL, "N", "Most complete prompts cached with their logits, so that a repeated prompt needs no computing; 0 caches none", false},
    {"prompt-entry-ttl", MR_OPTION_DURATION, AT(prompt_entry_ttl_ns), "300s", ENGINE, 0, 1e18, NULL, "TIME", "How long a cached complete prompt lives after its last use", false},
    {"session-keep", MR_OPTION_DURATION, AT(session_keep_ns), "600s", ENGINE, 0, 1e18, NULL, "TIME", "How long the KV blocks of a session are evicted after all others, so that the next turn of the conversation finds them", false},
    {"session-share", MR_OPTION_U32, AT(session_share), "50", ENGINE, 0, 100, NULL, "PERCENT", "Largest percentage of the KV pool that is kept for sessions", false},
    {"default-max-tokens", MR_OPTION_U32, AT(default_max_tokens), "256", BIT(SERVE), 1, 2147483647.0, NULL, "N", "max_tokens of a request that sets none", false},
    {"queue-requests", MR_OPTION_U32, AT(queue_requests), "256", WORKER, 1, 1048576, NULL, "N", "Most requests waiting in this worker; further ones stay in Kafka, where any worker can take them", false},
    {"queue-bytes", MR_OPTION_BYTES, AT(queue_bytes), "256MiB", WORKER, 1048576, 1e15, NULL, "SIZE", "Memory that the waiting requests may use", false},
    {"queue-pools", MR_OPTION_U32, AT(queue_pools), "4", WORKER, 0, 1048576, NULL, "N", "Most predicted KV of the waiting requests, as a multiple of the KV pool; 0 is no limit", false},
    {"tenant-weight", MR_OPTION_LIST, AT(tenant_weight), "", BIT(SERVE), 0, 0, NULL, "TENANT=N", "Share of the engine for a tenant (1 to 1000), relative to the other tenants; repeatable; 1 for a tenant without it", false},
    {"deadline-admission", MR_OPTION_BOOL, AT(deadline_admission), "false", BIT(SERVE), 0, 0, NULL, NULL, "Reject a request before it starts if it cannot finish by its deadline, instead of computing until the deadline", false},
    {"max-record-bytes", MR_OPTION_BYTES, AT(max_record_bytes), "1MiB", WORKER | BIT(TOPICS), 64, 67108864, NULL, "SIZE", "Largest request record; a larger one is rejected", false},

    {"brokers", MR_OPTION_TEXT, AT(brokers), "", KAFKA, 0, 0, NULL, "HOST:PORT", "Kafka bootstrap servers, separated by commas", false},
    {"prefix", MR_OPTION_TEXT, AT(prefix), "millrace", KAFKA, 0, 0, NULL, "NAME", "Prefix of the default topic names", false},
    {"group", MR_OPTION_TEXT, AT(group), "millrace", BIT(SERVE) | BIT(CHECK) | BIT(TOP), 0, 0, NULL, "NAME", "Consumer group; the workers of one group share the partitions of the request topics", false},
    {"requests-topic", MR_OPTION_LIST, AT(requests_topic), "", BIT(SERVE) | ASKING | BIT(TOPICS), 0, 0, NULL, "TOPIC[,priority=N][,weight=N][,tenant=NAME][,queue=TIME][,run=TIME][,strict]", "Request topic and its settings: priority -100 to 100, weight 1 to 1000, tenant, longest queue and run time, strict; repeatable; default <prefix>.requests", false},
    {"tokens-topic", MR_OPTION_TEXT, AT(tokens_topic), "", BIT(SERVE) | ASKING | BIT(TAIL) | BIT(TOPICS), 0, 0, NULL, "TOPIC", "Topic of token records; default <prefix>.tokens", false},
    {"results-topic", MR_OPTION_TEXT, AT(results_topic), "", BIT(SERVE) | ASKING | BIT(TAIL) | BIT(TOPICS), 0, 0, NULL, "TOPIC", "Topic of results; default <prefix>.results", false},
    {"cancel-topic", MR_OPTION_TEXT, AT(cancel_topic), "", BIT(SERVE) | BIT(CANCEL) | BIT(TOPICS) | BIT(TOP), 0, 0, NULL, "TOPIC", "Topic of cancel records; default <prefix>.cancel", false},
    {"dlq-topic", MR_OPTION_TEXT, AT(dlq_topic), "", BIT(SERVE) | BIT(TOPICS), 0, 0, NULL, "TOPIC", "Topic of dead letters; default <prefix>.dlq", false},
    {"reply-topic", MR_OPTION_LIST, AT(reply_topics), "", BIT(SERVE) | BIT(TOPICS), 0, 0, NULL, "TOPIC", "Topic that the header kafka_replyTopic of a request may name, or PREFIX* for all that begin so; repeatable; none unless given, because producers choose the header", false},
    {"kafka", MR_OPTION_LIST, AT(kafka), "", KAFKA, 0, 0, NULL, "NAME=VALUE", "Any librdkafka property, or consumer.NAME or producer.NAME for one side; repeatable. VALUE may be @FILE or env:NAME, which keep secrets off the command line", false},
    {"delivery", MR_OPTION_CHOICE, AT(delivery), "at-least-once", BIT(SERVE), 0, 0, "at-least-once|exactly-once", "MODE", "at-least-once commits offsets after results, so a crash may repeat a result; exactly-once writes results and offsets in one Kafka transaction", false},
    {"group-instance", MR_OPTION_TEXT, AT(group_instance), "", BIT(SERVE), 0, 0, NULL, "NAME", "Static member name in the consumer group: a worker that restarts within --session-timeout keeps its partitions", false},
    {"foreign-commits", MR_OPTION_CHOICE, AT(foreign_commits), "refuse", BIT(SERVE), 0, 0, "refuse|ignore", "MODE", "If another application committed offsets for this group: refuse exits, ignore starts from those offsets", false},
    {"duplicate-id", MR_OPTION_CHOICE, AT(duplicate_id), "reject", BIT(SERVE), 0, 0, "reject|run", "MODE", "Another request under an id that its tenant has in flight or used in the last 10 minutes: reject answers it with the error duplicate_id, run runs it after the first. The same request sent again is no other request", false},
    {"on-log-replaced", MR_OPTION_CHOICE, AT(on_log_replaced), "run", BIT(SERVE), 0, 0, "run|skip", "MODE", "A requests partition that begins again below the committed offset, because its topic was created anew or its log lost records: run runs all its records, also those that were run before, skip passes over them up to the committed offset, also over new ones", false},
    {"on-revoke", MR_OPTION_CHOICE, AT(on_revoke), "drop", BIT(SERVE), 0, 0, "drop|drain", "MODE", "Running requests of a partition that moves to another worker: drop abandons them and the new owner starts over, drain finishes them first", false},
    {"revoke-timeout", MR_OPTION_DURATION, AT(revoke_timeout_ns), "10s", BIT(SERVE), 0, 3.6e12, NULL, "TIME", "How long --on-revoke drain waits for running requests; at most half of --poll-interval-max", false},
    {"prefetch-memory", MR_OPTION_BYTES, AT(prefetch_bytes), "64MiB", WORKER, 1048576, 1e12, NULL, "SIZE", "Memory of the values of request records that are fetched before the worker has room for them, divided among all partitions of the request topics, at least 16 KiB for each", false},
    {"strict", MR_OPTION_BOOL, AT(strict), "false", BIT(SERVE), 0, 0, NULL, NULL, "Reject requests with unknown fields on every request topic; otherwise such fields are ignored and counted", false},
    {"commit-interval", MR_OPTION_DURATION, AT(commit_interval_ns), "100ms", BIT(SERVE), 1e6, 6e10, NULL, "TIME", "Shortest time between two offset commits, or between two transactions of exactly-once delivery", false},
    {"drain-timeout", MR_OPTION_DURATION, AT(drain_timeout_ns), "25s", BIT(SERVE), 0, 3.6e12, NULL, "TIME", "How long running requests may finish after SIGTERM; the default leaves a margin below the 30 s that Kubernetes grants", false},
    {"session-timeout", MR_OPTION_DURATION, AT(session_timeout_ns), "45s", BIT(SERVE), 1e9, 3.6e12, NULL, "TIME", "Time without a heartbeat after which the consumer group gives this worker's partitions to others; the default is Kafka's", false},
    {"broker-timeout", MR_OPTION_DURATION, AT(broker_timeout_ns), "5m", BIT(SERVE), 0, 8.64e13, NULL, "TIME", "How long a starting worker retries a broker that does not answer", false},
    {"poll-interval-max", MR_OPTION_DURATION, AT(poll_interval_max_ns), "0", BIT(SERVE), 0, 8.64e13, NULL, "TIME", "Longest time between two polls of the consumer before the group considers this worker stuck; also how long a rebalance waits for a member that does not answer, during which no worker gets requests. 0 is the longest of a minute, --session-timeout and, with --on-revoke drain, twice --revoke-timeout", false},
    {"token-linger", MR_OPTION_DURATION, AT(token_linger_ns), "1ms", WORKER, 0, 1e9, NULL, "TIME", "How long a token record may wait to be sent in one batch with others", false},
    {"attempts-max", MR_OPTION_U32, AT(attempts_max), "2", BIT(SERVE), 1, 100, NULL, "N", "Crashes after which a request counts as poison and is dead-lettered; if other requests ran beside it at the last one, it first runs once more as a suspect, one suspect at a time", false},
    {"worker-id", MR_OPTION_TEXT, AT(worker_id), "", WORKER, 0, 0, NULL, "NAME", "Name of this worker in results and logs; by default host name and process id. exactly-once needs a name that survives restarts", false},
    {"state-dir", MR_OPTION_TEXT, AT(state_dir), "", BIT(SERVE), 0, 0, NULL, "FOLDER", "Folder for a small file that tells the next worker which requests this one gave up in order, if it ends while the broker is away; by default that of systemd, XDG_STATE_HOME or HOME", false},

    {"redis", MR_OPTION_TEXT, AT(redis), "", BIT(SERVE) | BIT(CHECK), 0, 0, NULL, "URL", "Redis that shares KV blocks between workers and keeps resume data: redis://[user:password@]HOST:PORT/DB, rediss:// for TLS, or unix:///PATH", false},
    {"redis-password-file", MR_OPTION_TEXT, AT(redis_password_file), "", BIT(SERVE) | BIT(CHECK), 0, 0, NULL, "FILE", "File whose first line is the Redis password; replaces the one in the URL", false},
    {"redis-key-file", MR_OPTION_TEXT, AT(redis_key_file), "", BIT(SERVE) | BIT(CHECK), 0, 0, NULL, "FILE", "Encrypt values in Redis; each line is a key id (1-255) and 64 hex digits. The first key encrypts, all keys decrypt", false},
    {"redis-ca", MR_OPTION_TEXT, AT(redis_ca), "", BIT(SERVE) | BIT(CHECK), 0, 0, NULL, "FILE", "Certificate authorities for rediss://; the system's unless given", false},
    {"redis-cert", MR_OPTION_TEXT, AT(redis_cert), "", BIT(SERVE) | BIT(CHECK), 0, 0, NULL, "FILE", "Client certificate for rediss://", false},
    {"redis-cert-key", MR_OPTION_TEXT, AT(redis_cert_key), "", BIT(SERVE) | BIT(CHECK), 0, 0, NULL, "FILE", "Private key of --redis-cert", false},
    {"redis-connections", MR_OPTION_U32, AT(redis_connections), "4", BIT(SERVE), 1, 16, NULL, "N", "Connections to Redis that transfer blocks; one more connection does lookups", false},
    {"redis-timeout", MR_OPTION_DURATION, AT(redis_timeout_ns), "25ms", BIT(SERVE), 1e6, 6e10, NULL, "TIME", "How long a request waits for its lookup in Redis; then the worker computes the whole prompt", false},
    {"redis-transfer-timeout", MR_OPTION_DURATION, AT(redis_transfer_timeout_ns), "2s", BIT(SERVE), 1e6, 6e11, NULL, "TIME", "How long the transfer of one block to or from Redis may take", false},
    {"redis-ttl", MR_OPTION_DURATION, AT(redis_ttl_ns), "24h", BIT(SERVE), 0, 3.2e16, NULL, "TIME", "Expiry of a block in Redis after its last use; 0 sets none and leaves eviction to Redis", false},
    {"redis-store-bytes", MR_OPTION_BYTES, AT(redis_store_bytes), "256MiB", BIT(SERVE), 1048576, 1e12, NULL, "SIZE", "Most bytes of blocks waiting to be stored in Redis, or one larger block; further blocks are dropped", false},
    {"redis-write-budget", MR_OPTION_BYTES, AT(redis_write_budget), "0", BIT(SERVE), 0, 1e12, NULL, "SIZE", "Most bytes per second that one tenant may store in Redis, on average; 0 is no limit", false},
    {"redis-kv", MR_OPTION_CHOICE, AT(redis_kv), "exact", BIT(SERVE), 0, 0, "exact|int8", "FORM", "Form of KV blocks in Redis: exact, or int8, which takes half the bytes and may change answers", false},
    {"redis-second-touch", MR_OPTION_BOOL, AT(redis_second_touch), "false", BIT(SERVE), 0, 0, NULL, NULL, "Store a block in Redis only when it is computed for the second time, so that one-time prompts write nothing", false},
    {"resume", MR_OPTION_BOOL, AT(resume), "true", BIT(SERVE), 0, 0, NULL, NULL, "Keep the generated tokens of running requests in Redis, so that after a crash the next attempt continues behind them", false},
    {"resume-ttl", MR_OPTION_DURATION, AT(resume_ttl_ns), "1h", BIT(SERVE), 1e9, 3.2e16, NULL, "TIME", "Expiry of a request's resume data in Redis after its last token", false},
    {"resume-bytes", MR_OPTION_BYTES, AT(resume_bytes), "64MiB", BIT(SERVE), 65536, 1e12, NULL, "SIZE", "Most memory for the resume data of the requests that this worker runs", false},
    {"http", MR_OPTION_TEXT, AT(http), "127.0.0.1:9464", BIT(SERVE), 0, 0, NULL, "HOST:PORT", "Address that serves /livez, /readyz, /metrics and /requests; off for no HTTP server", false},
    {"trace-endpoint", MR_OPTION_TEXT, AT(trace_endpoint), "", BIT(SERVE), 0, 0, NULL, "URL", "Collector that receives spans of requests by OTLP over HTTP: http://HOST[:PORT][/PATH], port 4318 and path /v1/traces by default; none unless given. A request whose header traceparent has the flag sampled has spans", false},
    {"trace-sample", MR_OPTION_DOUBLE, AT(trace_sample), "1", BIT(SERVE), 0, 1, NULL, "RATIO", "Share of the requests without a header traceparent that have spans", false},
    {"log-format", MR_OPTION_CHOICE, AT(log_format), "auto", WORKER, 0, 0, "auto|text|json", "FORMAT", "Format of log lines on stderr; auto is text on a terminal and JSON otherwise", false},
    {"log-level", MR_OPTION_CHOICE, AT(log_level), "info", WORKER, 0, 0, "error|warn|info|debug", "LEVEL", "Least severe level that is logged", false},
    {"stats-interval", MR_OPTION_DURATION, AT(stats_interval_ns), "10s", BIT(SERVE), 0, 3.6e12, NULL, "TIME", "Time between two stats lines in the log while the engine has work; 0 logs none", false},

    {"id", MR_OPTION_TEXT, AT(id), "", BIT(SEND), 0, 0, NULL, "ID", "Request id, 1 to 128 printable ASCII characters; random unless given", false},
    {"msgpack", MR_OPTION_BOOL, AT(msgpack), "false", ASKING, 0, 0, NULL, NULL, "Encode requests in msgpack instead of JSON", false},
    {"json", MR_OPTION_BOOL, AT(json), "false", BIT(SEND) | BIT(TAIL) | BIT(TOP) | BIT(CHECK) | BIT(TOKENIZE) | BIT(DEMO) | BIT(TOPICS), 0, 0, NULL, NULL, "Print JSON instead of text", false},
    {"wait", MR_OPTION_BOOL, AT(wait), "true", BIT(SEND), 0, 0, NULL, NULL, "Wait for the result and print it; --no-wait prints the request id", false},
    {"stream", MR_OPTION_BOOL, AT(stream), "true", BIT(SEND) | BIT(BENCH), 0, 0, NULL, NULL, "Request token records, so that the answer streams", false},
    {"timeout", MR_OPTION_DURATION, AT(timeout_ns), "0", ASKING | BIT(TAIL) | BIT(CHECK) | BIT(CANCEL) | BIT(TOPICS) | BIT(REPLAY) | BIT(TOP), 0, 8.64e13, NULL, "TIME", "Give up after this long; 0 never does", false},
    {"from-beginning", MR_OPTION_BOOL, AT(from_beginning), "false", BIT(TAIL), 0, 0, NULL, NULL, "Start at the oldest record of each partition instead of the end", false},
    {"partitions", MR_OPTION_U32, AT(partitions), "4", BIT(BROKER) | BIT(DEMO), 1, 1024, NULL, "N", "Partitions of each topic of the embedded broker", false},
    {"requests-partitions", MR_OPTION_U32, AT(requests_partitions), "24", BIT(TOPICS), 1, 100000, NULL, "N", "Partitions of a requests topic that is created: at most so many workers share it, twice as many as workers is better", false},
    {"replicas", MR_OPTION_U32, AT(replicas), "0", BIT(TOPICS), 0, 100, NULL, "N", "Replicas of a topic that is created; 0 is the broker's default", false},
    {"broker-count", MR_OPTION_U32, AT(broker_count), "1", BIT(BROKER), 1, 16, NULL, "N", "Brokers of the embedded cluster", false},
    {"to", MR_OPTION_TEXT, AT(replay_to), "", BIT(REPLAY), 0, 0, NULL, "TOPIC", "Topic to send to; by default the one that a dead letter came from, else the topic that is read", false},
    {"since", MR_OPTION_DURATION, AT(replay_since_ns), "0", BIT(REPLAY), 0, 3.2e16, NULL, "TIME", "Only records of the last TIME, by their timestamps; 0 is all", false},
    {"until", MR_OPTION_DURATION, AT(replay_until_ns), "0", BIT(REPLAY), 0, 3.2e16, NULL, "TIME", "Not the records of the last TIME; 0 leaves none out", false},
    {"speed", MR_OPTION_DOUBLE, AT(replay_speed), "0", BIT(REPLAY), 0, 1e6, NULL, "X", "Pace: 1 keeps the distances of the records' timestamps, 2 is twice as fast; 0 sends all at once", false},
    {"dry-run", MR_OPTION_BOOL, AT(dry_run), "false", BIT(REPLAY), 0, 0, NULL, NULL, "Print what would be sent, and send nothing", false},
    {"once", MR_OPTION_BOOL, AT(once), "false", BIT(TOP), 0, 0, NULL, NULL, "Print one table, of one interval, and end", false},
    {"http-port", MR_OPTION_U32, AT(http_port), "9464", BIT(TOP), 1, 65535, NULL, "PORT", "Port of --http of workers that are found through --brokers; further workers of one host have the ports that follow", false},
    {"tenant", MR_OPTION_TEXT, AT(tenant), "", BIT(TOP), 0, 0, NULL, "NAME", "Show requests and lag of this tenant only", false},
    {"interval", MR_OPTION_DURATION, AT(interval_ns), "1s", BIT(TOP), 1e8, 3.6e12, NULL, "TIME", "Time between two refreshes of the screen", false},
    {"engine", MR_OPTION_BOOL, AT(engine), "false", BIT(BENCH), 0, 0, NULL, NULL, "Measure the engine in this process, without Kafka", false},
    {"cache", MR_OPTION_BOOL, AT(cache), "false", BIT(BENCH), 0, 0, NULL, NULL, "Measure the prefix cache in this process, without Kafka: --requests prompts that begin with one of 20 texts, with the cache on and off", true},
    {"mix", MR_OPTION_BOOL, AT(mix), "false", BIT(BENCH), 0, 0, NULL, NULL, "Send --requests prompts of 32 to 512 tokens with answers of 64 tokens, instead of one length", false},
    {"output", MR_OPTION_TEXT, AT(output), "", BIT(BENCH), 0, 0, NULL, "FILE", "File that receives the results as JSON", false},
    {"report", MR_OPTION_TEXT, AT(report), "", BIT(BENCH), 0, 0, NULL, "FILE", "File that receives the results as one HTML page with charts, which needs no network", false},
    {"objective", MR_OPTION_LIST, AT(objectives), "", BIT(BENCH), 0, 0, NULL, "FIGURE-STATISTIC=TIME", "What the fleet is to achieve, such as ttft-p99=500ms: ttft, tpot, itl or e2el; mean, median, p75, p90, p95, p99 or max; repeatable", false},
    {"sweep", MR_OPTION_BOOL, AT(sweep), "false", BIT(BENCH), 0, 0, NULL, NULL, "Find the highest rate at which no request fails and each --objective is met: runs of --requests requests each, the first at --rate (1 if that is 0)", false},
    {"compare", MR_OPTION_BOOL, AT(compare), "false", BIT(BENCH), 0, 0, NULL, NULL, "Compare two files that --output wrote, given as arguments, and measure nothing", false},
    {"requests", MR_OPTION_U32, AT(requests), "200", BIT(BENCH), 1, 10000000, NULL, "N", "Number of requests", false},
    {"concurrency", MR_OPTION_U32, AT(concurrency), "0", BIT(BENCH), 0, 1048576, NULL, "N", "Most requests in flight; 0 is no limit", false},
    {"rate", MR_OPTION_DOUBLE, AT(rate), "0", BIT(BENCH), 0, 1e6, NULL, "R", "Requests per second with Poisson arrivals; 0 sends all at once", false},
    {"prompt-tokens", MR_OPTION_U32, AT(prompt_tokens), "512", BIT(BENCH), 1, 1048576, NULL, "N", "Tokens of each prompt", false},
    {"output-tokens", MR_OPTION_U32, AT(output_tokens), "128", BIT(BENCH), 1, 1048576, NULL, "N", "Tokens of each answer", false},
    {"warmup", MR_OPTION_U32, AT(warmup), "1", BIT(BENCH), 0, 1000, NULL, "N", "Requests sent before the measurement and left out of it", false},
    {"repetitions", MR_OPTION_U32, AT(repetitions), "5", BIT(BENCH), 1, 1000, NULL, "N", "Repetitions of each test of --engine", false},
    {"seed", MR_OPTION_U64, AT(seed), "1", BIT(BENCH), 0, 1.8e19, NULL, "N", "Seed of the prompts and arrival times; equal seeds give equal work", false},
    {"chat", MR_OPTION_TEXT, AT(chat), "", BIT(TOKENIZE), 0, 0, NULL, "FILE", "Read a request record with messages in JSON from this file, and print the text that the chat template makes of it and its token ids", false},
    {"decode", MR_OPTION_BOOL, AT(decode), "false", BIT(TOKENIZE), 0, 0, NULL, NULL, "Take the arguments as token ids and print their text", false},
    {"add-special", MR_OPTION_BOOL, AT(add_special), "true", BIT(TOKENIZE), 0, 0, NULL, NULL, "Add the begin and end tokens that the model's tokenizer defines", false},
    {"parse-special", MR_OPTION_BOOL, AT(parse_special), "true", BIT(TOKENIZE), 0, 0, NULL, NULL, "Read special tokens written in the text as tokens instead of as plain text", false},
};
/* clang-format on */

const size_t mr_option_count = sizeof mr_options / sizeof mr_options[0];

#define MANY ((size_t)1 << 20)

const struct mr_command_entry mr_commands[MR_COMMAND_COUNT] = {
    [MR_COMMAND_HELP] = {"help", "[COMMAND]", "Print the help of a command", 0, 1},
    [MR_COMMAND_VERSION] = {"version", "", "Print the version", 0, 0},
    [MR_COMMAND_SERVE] = {"serve", "", "Run a worker that answers requests from Kafka", 0, 0},
    [MR_COMMAND_DEMO] = {"demo", "[PROMPT...]",
                         "Answer prompts with a broker and a worker in this process", 0, MANY},
    [MR_COMMAND_BROKER] = {"broker", "", "Run the embedded test broker", 0, 0},
    [MR_COMMAND_SEND] =
        {"send", "[FIELD=VALUE...] [--] [PROMPT...]",
         "Publish a request, with the prompt in words or on stdin, and print the answer", 0, MANY},
    [MR_COMMAND_TAIL] = {"tail", "[ID...]", "Print token records and results as they arrive", 0,
                         MANY},
    [MR_COMMAND_CANCEL] = {"cancel", "ID...", "Cancel requests by id", 1, MANY},
    [MR_COMMAND_TOP] = {"top", "[HOST:PORT...]", "Show a live screen of a fleet", 0, MANY},
    [MR_COMMAND_BENCH] = {"bench", "[--compare OLD NEW]",
                          "Measure a fleet through Kafka, or the engine in this process", 0, 2},
    [MR_COMMAND_CHECK] = {"check", "", "Check the configuration, the model, the broker and Redis",
                          0, 0},
    [MR_COMMAND_TOKENIZE] = {"tokenize", "[TEXT...]", "Print the token ids of a text", 0, MANY},
    [MR_COMMAND_REPLAY] = {"replay", "TOPIC [ID...]",
                           "Send records of a topic again: all, a time range, or some ids", 1,
                           MANY},
    [MR_COMMAND_TOPICS] = {"topics", "create|check",
                           "Create the topics with settings that millrace needs, or check them", 1,
                           1},
    [MR_COMMAND_MAN] = {"man", "", "Print the manual page", 0, 0},
    [MR_COMMAND_COMPLETION] = {"completion", "", "Print the completion script for bash", 0, 0},
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

/* Levenshtein's edit distance between two texts, with one row of the table in memory (Wagner and
 * Fischer 1974). */
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

/* Sets *best to the candidate if the candidate's edit distance to `written` is small enough and
 * smaller than *least. */
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
