#include "worker/config/options_table.h"

#include "codec/check.h"
#include "codec/nearest.h"

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
#define FLEET      (BIT(TOPICS) | BIT(REPLAY) | BIT(TOP) | BIT(LAG)) /* for operators */
#define KAFKA      (BIT(SERVE) | BIT(GATEWAY) | ASKING | BIT(BATCH) | BIT(TAIL) | BIT(CANCEL) | FLEET)
#define U32_MAX    4294967295.0

#define AT(field) offsetof(struct mr_config, field)

/* clang-format off */
/* columns: name, kind, field, default, commands, min, max, choices, value, help, group, flag only */
const struct mr_option mr_options[] = {
    {"config", MR_OPTION_TEXT, AT(config), "", CONFIGURED, 0, 0, NULL, "FILE", "YAML file that sets any of these options. A flag or an environment variable overrides it.", MR_GROUP_FIRST, false},
    {"print-config", MR_OPTION_BOOL, AT(print_config), "false", CONFIGURED, 0, 0, NULL, NULL, "Print the value of every option and where it comes from, then exit.", MR_GROUP_GENERAL, true},
    {"help", MR_OPTION_BOOL, AT(help), "false", ALL, 0, 0, NULL, NULL, "Print this help and exit.", MR_GROUP_GENERAL, true},

    {"model", MR_OPTION_TEXT, AT(model), "", MODEL, 0, 0, NULL, "PATH", "Model to serve: a GGUF file or a Hugging Face model folder.", MR_GROUP_FIRST, false},
    {"model-name", MR_OPTION_TEXT, AT(model_name), "", WORKER, 0, 0, NULL, "NAME", "Model name that requests and results carry. By default the name of the file or folder, without .gguf.", MR_GROUP_MODEL, false},
    {"adapter", MR_OPTION_LIST, AT(adapter), "", BIT(SERVE), 0, 0, NULL, "NAME=PATH", "LoRA adapter of the model: a folder of PEFT or a GGUF file. Requests choose it as their model. NAME=PATH,tenant=TENANT bars it to other tenants. Repeatable.", MR_GROUP_MODEL, false},
    {"adapters", MR_OPTION_TEXT, AT(adapters), "", BIT(SERVE), 0, 0, NULL, "FOLDER", "Folder of LoRA adapters, each under the name of its folder, or of its GGUF file without .gguf. The worker looks for added, changed and removed adapters every two seconds.", MR_GROUP_MODEL, false},
    {"adapter-memory", MR_OPTION_BYTES, AT(adapter_memory_bytes), "2GiB", BIT(SERVE), 1048576, 1e15, NULL, "SIZE", "Memory of the loaded LoRA adapters. The adapter whose last request is longest ago makes room for another one.", MR_GROUP_MODEL, false},
    {"chat-template", MR_OPTION_TEXT, AT(chat_template), "", WORKER | BIT(TOKENIZE), 0, 0, NULL, "FILE", "Jinja template for messages, instead of the model's own.", MR_GROUP_MODEL, false},
    {"device", MR_OPTION_TEXT, AT(device), "cpu", ENGINE, 0, 0, NULL, "DEVICE", "Device that computes: cpu, cuda or cuda:N.", MR_GROUP_FIRST, false},
    {"backend", MR_OPTION_TEXT, AT(backend), "auto", ENGINE, 0, 0, "auto|cpu|torch", "NAME", "Code that computes: our CPU kernels (cpu) or LibTorch's operators (torch). auto is torch on a GPU and for fp16, otherwise cpu.", MR_GROUP_MODEL, false},
    {"cuda-kernels", MR_OPTION_TEXT, AT(cuda_kernels), "auto", ENGINE, 0, 0, "auto|no-graphs|off", "NAME", "Kernels on a GPU. auto: our own, if this program was built with them (make gpu-bundle, docker/Dockerfile.cuda), with decode steps recorded as CUDA graphs at start. no-graphs: our own, enqueued one by one, to distinguish a fault of a kernel from one of a graph. off: LibTorch's operators only.", MR_GROUP_MODEL, false},
    {"dtype", MR_OPTION_TEXT, AT(dtype), "auto", ENGINE, 0, 0, "auto|fp32|bf16|fp16|int8|int4", "TYPE", "Number type of the weights. auto is bf16, but backend cpu keeps the 4 to 8 bits of a GGUF file and the 4 bits of AWQ and GPTQ. int8 and int4 quantize any model at start. Backend cpu has no fp16; torch has no int8 and int4.", MR_GROUP_MODEL, false},
    {"kv-dtype", MR_OPTION_CHOICE, AT(kv_dtype), "auto", ENGINE, 0, 0, "auto|int8", "TYPE", "Number type of K and V in the KV block pool. auto is the type that attention computes with: bf16, or the one of --dtype fp32 or fp16. int8 (backend cpu only) holds nearly twice the tokens of bf16 and changes logits by up to 2.5 % (root mean square).", MR_GROUP_MODEL, false},
    {"threads", MR_OPTION_U32, AT(threads), "0", ENGINE, 0, 256, NULL, "N", "Threads that compute on the CPU. 0 is one per core, at most the CPU quota of the control group.", MR_GROUP_MODEL, false},
    {"kv-memory", MR_OPTION_BYTES, AT(kv_memory_bytes), "2GiB", ENGINE, 1048576, 1e15, NULL, "SIZE", "Memory of the KV block pool, which limits the tokens of all running sequences together. The default on a CPU is 2 GiB, or half of the memory (or of the control group's limit) without the weights, if that is less. The default on a GPU is the memory that is free after the weights are loaded, except a tenth of it (at least 1 GiB).", MR_GROUP_FIRST, false},
    {"context-tokens", MR_OPTION_U32, AT(context_tokens), "0", ENGINE, 0, U32_MAX, NULL, "N", "Longest sequence in tokens, prompt and output together. 0 is the length that the model was trained for.", MR_GROUP_MODEL, false},
    {"max-sequences", MR_OPTION_U32, AT(max_sequences), "64", ENGINE, 1, 4096, NULL, "N", "Most sequences in the running batch. More raise throughput while the KV pool has room for them.", MR_GROUP_LIMITS, false},
    {"chunk-tokens", MR_OPTION_I32, AT(chunk_tokens), "512", ENGINE, -1, 1048576, NULL, "N", "Prompt tokens that one prefill chunk computes. Larger chunks make prefill faster, smaller ones shorten the gaps between tokens of running answers. 0 computes a prompt in one step.", MR_GROUP_MODEL, false},
    {"step-tokens", MR_OPTION_U32, AT(step_tokens), "2048", ENGINE, 1, 1048576, NULL, "N", "Most tokens that one step computes, prefill and decode together.", MR_GROUP_MODEL, false},
    {"chunk-requests", MR_OPTION_U32, AT(chunk_requests), "1", ENGINE, 1, 4096, NULL, "N", "Most long prompts in chunked prefill at the same time. More share the chunk, fewer end sooner one after another. Prompts that lack at most one KV block, and more urgent ones, start in any case.", MR_GROUP_MODEL, false},
    {"step-target-ms", MR_OPTION_U32, AT(step_target_ms), "auto", ENGINE, 0, 60000, "auto", "MS", "Step time to aim for, in milliseconds. Prefill chunks shrink so that running answers get a token about this often. auto is 100 ms, 4 times a step without prefill, or a step with 24 prefill tokens, whichever is longest; 0 switches the target off.", MR_GROUP_MODEL, false},
    {"speculation", MR_OPTION_CHOICE, AT(speculation), "auto", ENGINE, 0, 0, "auto|off", "MODE", "Compute several tokens of an answer in one step, where its text repeats the prompt or itself or the grammar leaves no choice. Answers stay the same. auto does so with backend cpu while it saves time.", MR_GROUP_MODEL, false},
    {"deterministic", MR_OPTION_BOOL, AT(deterministic), "false", ENGINE, 0, 0, NULL, NULL, "Make an answer independent of the other requests in its batch. This costs speed on a GPU; the CPU always does it.", MR_GROUP_MODEL, false},
    {"prefix-cache", MR_OPTION_BOOL, AT(prefix_cache), "true", ENGINE, 0, 0, NULL, NULL, "Reuse the KV blocks of an earlier prompt that begins with the same tokens.", MR_GROUP_MODEL, false},
    {"prompt-entries", MR_OPTION_U32, AT(prompt_entries), "100", ENGINE, 0, 1048576, NULL, "N", "Most complete prompts cached with their logits, so that a repeated prompt needs no computing. 0 caches none.", MR_GROUP_MODEL, false},
    {"prompt-entry-ttl", MR_OPTION_DURATION, AT(prompt_entry_ttl_ns), "300s", ENGINE, 0, 1e18, NULL, "TIME", "Lifetime of a cached complete prompt after its last use.", MR_GROUP_MODEL, false},
    {"session-keep", MR_OPTION_DURATION, AT(session_keep_ns), "600s", ENGINE, 0, 1e18, NULL, "TIME", "How long after a turn the KV blocks of its session are evicted last, so that the next turn finds them.", MR_GROUP_MODEL, false},
    {"default-max-tokens", MR_OPTION_U32, AT(default_max_tokens), "256", BIT(SERVE), 1, 2147483647.0, NULL, "N", "max_tokens of a request that sets none.", MR_GROUP_LIMITS, false},
    {"queue-requests", MR_OPTION_U32, AT(queue_requests), "256", WORKER, 1, 1048576, NULL, "N", "Most requests waiting in this worker. Further ones stay in Kafka, where any worker can take them.", MR_GROUP_LIMITS, false},
    {"queue-bytes", MR_OPTION_BYTES, AT(queue_bytes), "256MiB", WORKER, 1048576, 1e15, NULL, "SIZE", "Memory for the waiting requests.", MR_GROUP_LIMITS, false},
    {"tenant-weight", MR_OPTION_LIST, AT(tenant_weight), "", BIT(SERVE), 0, 0, NULL, "TENANT=N", "Share of the engine for a tenant, 1 to 1000, relative to the other tenants. A tenant without a weight has 1. Repeatable.", MR_GROUP_LIMITS, false},
    {"tenant-quota", MR_OPTION_LIST, AT(tenant_quota), "", BIT(SERVE), 0, 0, NULL, "TENANT=N/PERIOD", "Most tokens that this worker computes for a tenant in a minute or a day: prompt tokens that no cache has, and generated tokens. Further requests of the tenant wait in Kafka. PERIOD is minute or day. Repeatable.", MR_GROUP_LIMITS, false},
    {"deadline-admission", MR_OPTION_BOOL, AT(deadline_admission), "false", BIT(SERVE), 0, 0, NULL, NULL, "Reject a request before it starts if it cannot finish by its deadline. Otherwise it runs until its deadline.", MR_GROUP_LIMITS, false},
    {"max-record-bytes", MR_OPTION_BYTES, AT(max_record_bytes), "1MiB", WORKER | BIT(TOPICS) | BIT(BATCH) | BIT(GATEWAY), 64, 67108864, NULL, "SIZE", "Largest request record. A larger one is rejected.", MR_GROUP_LIMITS, false},

    {"brokers", MR_OPTION_TEXT, AT(brokers), "", KAFKA, 0, 0, NULL, "HOST:PORT", "Kafka bootstrap servers, separated by commas.", MR_GROUP_FIRST, false},
    {"prefix", MR_OPTION_TEXT, AT(prefix), "millrace", KAFKA, 0, 0, NULL, "NAME", "Prefix of the default topic names.", MR_GROUP_FIRST, false},
    {"group", MR_OPTION_TEXT, AT(group), "millrace", BIT(SERVE) | BIT(CHECK) | BIT(TOP) | BIT(LAG), 0, 0, NULL, "NAME", "Consumer group. The workers of one group share the partitions of the request topics.", MR_GROUP_FIRST, false},
    {"requests-topic", MR_OPTION_LIST, AT(requests_topic), "", BIT(SERVE) | ASKING | BIT(TOPICS) | BIT(LAG) | BIT(GATEWAY), 0, 0, NULL, "TOPIC[,SETTING...]", "Request topic and its settings: priority=N (-100 to 100), weight=N (1 to 1000), tenant=NAME, queue=TIME and run=TIME (longest wait and longest run of a request), thinking=N (thinking_token_budget of requests without one), adapter=NAME (LoRA adapter of requests without a model), strict. By default <prefix>.requests. Repeatable.", MR_GROUP_FIRST, false},
    {"tokens-topic", MR_OPTION_TEXT, AT(tokens_topic), "", BIT(SERVE) | ASKING | BIT(TAIL) | BIT(TOPICS), 0, 0, NULL, "TOPIC", "Topic of token records. By default <prefix>.tokens.", MR_GROUP_KAFKA, false},
    {"results-topic", MR_OPTION_TEXT, AT(results_topic), "", BIT(SERVE) | ASKING | BIT(BATCH) | BIT(TAIL) | BIT(TOPICS) | BIT(LAG), 0, 0, NULL, "TOPIC", "Topic of results. By default <prefix>.results.", MR_GROUP_KAFKA, false},
    {"cancel-topic", MR_OPTION_TEXT, AT(cancel_topic), "", BIT(SERVE) | BIT(CANCEL) | BIT(TOPICS) | BIT(TOP) | BIT(BATCH) | BIT(GATEWAY), 0, 0, NULL, "TOPIC", "Topic of cancel records. By default <prefix>.cancel.", MR_GROUP_KAFKA, false},
    {"dlq-topic", MR_OPTION_TEXT, AT(dlq_topic), "", BIT(SERVE) | BIT(TOPICS), 0, 0, NULL, "TOPIC", "Topic of dead letters. By default <prefix>.dlq.", MR_GROUP_KAFKA, false},
    {"reply-topic", MR_OPTION_LIST, AT(reply_topics), "", BIT(SERVE) | BIT(TOPICS) | BIT(GATEWAY), 0, 0, NULL, "TOPIC", "Topic that the header kafka_replyTopic of a request may name, or PREFIX* for all topics that begin with PREFIX. By default <prefix>.replies alone, because producers choose the header. For gateway: the one topic in which it gets its answers. Repeatable.", MR_GROUP_KAFKA, false},
    {"kafka", MR_OPTION_LIST, AT(kafka), "", KAFKA, 0, 0, NULL, "NAME=VALUE", "Any librdkafka property. consumer.NAME or producer.NAME sets it for one side only. The value @FILE or env:NAME keeps a secret off the command line. Repeatable.", MR_GROUP_KAFKA, false},
    {"delivery", MR_OPTION_CHOICE, AT(delivery), "at-least-once", BIT(SERVE), 0, 0, "at-least-once|exactly-once", "MODE", "at-least-once commits offsets after results, so a crash can repeat a result. exactly-once writes results and offsets in one Kafka transaction.", MR_GROUP_DELIVERY, false},
    {"group-instance", MR_OPTION_TEXT, AT(group_instance), "", BIT(SERVE), 0, 0, NULL, "NAME", "Static member name in the consumer group. A worker that restarts within --session-timeout keeps its partitions.", MR_GROUP_KAFKA, false},
    {"foreign-commits", MR_OPTION_CHOICE, AT(foreign_commits), "refuse", BIT(SERVE), 0, 0, "refuse|ignore", "MODE", "What to do if another application committed offsets for this group: refuse exits, ignore starts from those offsets.", MR_GROUP_DELIVERY, false},
    {"duplicate-id", MR_OPTION_CHOICE, AT(duplicate_id), "reject", BIT(SERVE), 0, 0, "reject|run", "MODE", "What to do with a different request under an id that its tenant has in flight or used in the last 10 minutes. reject answers it with the error duplicate_id, run runs it after the first. Resending an identical request is not a duplicate.", MR_GROUP_DELIVERY, false},
    {"on-log-replaced", MR_OPTION_CHOICE, AT(on_log_replaced), "run", BIT(SERVE), 0, 0, "run|skip", "MODE", "What to do when the log of a requests partition begins again below the committed offset, because its topic was recreated or its log lost records. run runs all its records, including those that ran before. skip skips all records below the committed offset, including new ones.", MR_GROUP_DELIVERY, false},
    {"on-revoke", MR_OPTION_CHOICE, AT(on_revoke), "drop", BIT(SERVE), 0, 0, "drop|drain", "MODE", "What to do with running requests of a partition that moves to another worker. drop abandons them and the new owner starts over, drain finishes them first.", MR_GROUP_DELIVERY, false},
    {"revoke-timeout", MR_OPTION_DURATION, AT(revoke_timeout_ns), "10s", BIT(SERVE), 0, 3.6e12, NULL, "TIME", "How long --on-revoke drain waits for running requests. At most half of --poll-interval-max.", MR_GROUP_DELIVERY, false},
    {"prefetch-memory", MR_OPTION_BYTES, AT(prefetch_bytes), "64MiB", WORKER, 1048576, 1e12, NULL, "SIZE", "Memory for the values of request records that are fetched before the worker has room for them. All partitions of the request topics share it, with at least 16 KiB each.", MR_GROUP_LIMITS, false},
    {"strict", MR_OPTION_BOOL, AT(strict), "false", BIT(SERVE), 0, 0, NULL, NULL, "Reject requests with unknown fields on every request topic. Otherwise such fields are named in the warnings of the result and counted.", MR_GROUP_DELIVERY, false},
    {"commit-interval", MR_OPTION_DURATION, AT(commit_interval_ns), "100ms", BIT(SERVE), 1e6, 6e10, NULL, "TIME", "Shortest time between two offset commits, or between two transactions of exactly-once delivery.", MR_GROUP_DELIVERY, false},
    {"drain-timeout", MR_OPTION_DURATION, AT(drain_timeout_ns), "25s", BIT(SERVE) | BIT(GATEWAY), 0, 3.6e12, NULL, "TIME", "How long running requests may continue after SIGTERM. The default leaves a margin below the 30 s that Kubernetes grants.", MR_GROUP_DELIVERY, false},
    {"session-timeout", MR_OPTION_DURATION, AT(session_timeout_ns), "45s", BIT(SERVE), 1e9, 3.6e12, NULL, "TIME", "Time without a heartbeat after which the group assigns this worker's partitions to others. The default is Kafka's.", MR_GROUP_KAFKA, false},
    {"broker-timeout", MR_OPTION_DURATION, AT(broker_timeout_ns), "5m", BIT(SERVE), 0, 8.64e13, NULL, "TIME", "How long a starting worker retries a broker that does not answer.", MR_GROUP_KAFKA, false},
    {"poll-interval-max", MR_OPTION_DURATION, AT(poll_interval_max_ns), "0", BIT(SERVE), 0, 8.64e13, NULL, "TIME", "Longest time between two polls of the consumer before the group removes this worker as stuck. A rebalance waits as long for a member that does not answer. 0 is the longest of one minute, --session-timeout and, with --on-revoke drain, twice --revoke-timeout.", MR_GROUP_KAFKA, false},
    {"token-linger", MR_OPTION_DURATION, AT(token_linger_ns), "1ms", WORKER, 0, 1e9, NULL, "TIME", "How long a token record may wait to be sent in one batch with others.", MR_GROUP_DELIVERY, false},
    {"attempts-max", MR_OPTION_U32, AT(attempts_max), "2", BIT(SERVE), 1, 100, NULL, "N", "Crashes after which a request is poison and is dead-lettered. If other requests were running at the last crash, the request first runs once more as a suspect, one suspect at a time.", MR_GROUP_DELIVERY, false},
    {"worker-id", MR_OPTION_TEXT, AT(worker_id), "", WORKER, 0, 0, NULL, "NAME", "Name of this worker in results and logs. By default host name and process id. exactly-once needs a name that survives restarts.", MR_GROUP_OBSERVING, false},
    {"state-dir", MR_OPTION_TEXT, AT(state_dir), "", BIT(SERVE), 0, 0, NULL, "FOLDER", "Folder for a small file. If the worker stops cleanly while the broker is unreachable, the file lists the requests that it returned, so that the next worker does not count a crash for them. By default the folder of systemd, XDG_STATE_HOME or HOME.", MR_GROUP_DELIVERY, false},

    {"redis", MR_OPTION_TEXT, AT(redis), "", BIT(SERVE) | BIT(CHECK), 0, 0, NULL, "URL", "Redis for the remote cache, which shares KV blocks between workers and keeps resume data: redis://[user:password@]HOST:PORT/DB, rediss:// for TLS, or unix:///PATH.", MR_GROUP_FIRST, false},
    {"redis-password-file", MR_OPTION_TEXT, AT(redis_password_file), "", BIT(SERVE) | BIT(CHECK), 0, 0, NULL, "FILE", "File whose first line is the Redis password. It replaces the password in the URL.", MR_GROUP_REDIS, false},
    {"redis-key-file", MR_OPTION_TEXT, AT(redis_key_file), "", BIT(SERVE) | BIT(CHECK), 0, 0, NULL, "FILE", "File of keys that encrypt the values in the remote cache. Each line is a key id (1 to 255) and 64 hex digits. The first key encrypts, all keys decrypt.", MR_GROUP_REDIS, false},
    {"redis-ca", MR_OPTION_TEXT, AT(redis_ca), "", BIT(SERVE) | BIT(CHECK), 0, 0, NULL, "FILE", "Certificate authorities for rediss://. By default the system's.", MR_GROUP_REDIS, false},
    {"redis-cert", MR_OPTION_TEXT, AT(redis_cert), "", BIT(SERVE) | BIT(CHECK), 0, 0, NULL, "FILE", "Client certificate for rediss://.", MR_GROUP_REDIS, false},
    {"redis-cert-key", MR_OPTION_TEXT, AT(redis_cert_key), "", BIT(SERVE) | BIT(CHECK), 0, 0, NULL, "FILE", "Private key of --redis-cert.", MR_GROUP_REDIS, false},
    {"redis-connections", MR_OPTION_U32, AT(redis_connections), "4", BIT(SERVE), 1, 16, NULL, "N", "Connections that transfer blocks to and from the remote cache. One more connection does lookups.", MR_GROUP_REDIS, false},
    {"redis-timeout", MR_OPTION_DURATION, AT(redis_timeout_ns), "25ms", BIT(SERVE), 1e6, 6e10, NULL, "TIME", "How long a request waits for its lookup in the remote cache. After that the worker computes the whole prompt.", MR_GROUP_REDIS, false},
    {"redis-ttl", MR_OPTION_DURATION, AT(redis_ttl_ns), "24h", BIT(SERVE), 0, 3.2e16, NULL, "TIME", "Expiry of a block in the remote cache after its last use. 0 sets none and leaves eviction to Redis.", MR_GROUP_REDIS, false},
    {"redis-write-budget", MR_OPTION_BYTES, AT(redis_write_budget), "0", BIT(SERVE), 0, 1e12, NULL, "SIZE", "Average bytes per second that one tenant may store in the remote cache. 0 is no limit.", MR_GROUP_REDIS, false},
    {"redis-kv", MR_OPTION_CHOICE, AT(redis_kv), "exact", BIT(SERVE), 0, 0, "exact|int8", "FORM", "Form of KV blocks in the remote cache: exact, or int8, which takes half the bytes and can change answers.", MR_GROUP_REDIS, false},
    {"redis-second-touch", MR_OPTION_BOOL, AT(redis_second_touch), "false", BIT(SERVE), 0, 0, NULL, NULL, "Store a block in the remote cache only when it is computed for the second time, so that one-time prompts write nothing.", MR_GROUP_REDIS, false},
    {"resume", MR_OPTION_BOOL, AT(resume), "true", BIT(SERVE), 0, 0, NULL, NULL, "Keep the generated tokens of running requests in Redis. After a crash the next attempt continues where they end.", MR_GROUP_REDIS, false},
    {"resume-ttl", MR_OPTION_DURATION, AT(resume_ttl_ns), "1h", BIT(SERVE), 1e9, 3.2e16, NULL, "TIME", "Expiry of a request's resume data in Redis after its last token.", MR_GROUP_REDIS, false},
    {"http", MR_OPTION_TEXT, AT(http), "127.0.0.1:9464", BIT(SERVE), 0, 0, NULL, "HOST:PORT", "Address that serves /livez, /readyz, /metrics and /requests. off starts no HTTP server.", MR_GROUP_FIRST, false},
    {"trace-endpoint", MR_OPTION_TEXT, AT(trace_endpoint), "", BIT(SERVE), 0, 0, NULL, "URL", "Collector that receives spans of requests by OTLP over HTTP: http://HOST[:PORT][/PATH], by default port 4318 and path /v1/traces. A request has spans if its traceparent header has the flag sampled, or without that header by --trace-sample.", MR_GROUP_OBSERVING, false},
    {"trace-sample", MR_OPTION_DOUBLE, AT(trace_sample), "1", BIT(SERVE), 0, 1, NULL, "RATIO", "Share of the requests without a traceparent header that have spans.", MR_GROUP_OBSERVING, false},
    {"log-format", MR_OPTION_CHOICE, AT(log_format), "auto", WORKER | BIT(GATEWAY), 0, 0, "auto|text|json", "FORMAT", "Format of log lines on stderr. auto is text on a terminal and JSON otherwise.", MR_GROUP_OBSERVING, false},
    {"log-level", MR_OPTION_CHOICE, AT(log_level), "info", WORKER | BIT(GATEWAY), 0, 0, "error|warn|info|debug", "LEVEL", "Least severe level that is logged.", MR_GROUP_OBSERVING, false},
    {"stats-interval", MR_OPTION_DURATION, AT(stats_interval_ns), "10s", BIT(SERVE), 0, 3.6e12, NULL, "TIME", "Time between two statistics lines in the log while the engine has work. 0 logs none.", MR_GROUP_OBSERVING, false},

    {"id", MR_OPTION_TEXT, AT(id), "", BIT(SEND), 0, 0, NULL, "ID", "Request id, 1 to 128 printable ASCII characters. By default random.", MR_GROUP_COMMAND, false},
    {"msgpack", MR_OPTION_BOOL, AT(msgpack), "false", ASKING, 0, 0, NULL, NULL, "Encode requests in msgpack instead of JSON.", MR_GROUP_COMMAND, false},
    {"json", MR_OPTION_BOOL, AT(json), "false", BIT(SEND) | BIT(TAIL) | BIT(TOP) | BIT(CHECK) | BIT(TOKENIZE) | BIT(DEMO) | BIT(TOPICS) | BIT(LAG), 0, 0, NULL, NULL, "Print JSON instead of text.", MR_GROUP_COMMAND, false},
    {"wait", MR_OPTION_BOOL, AT(wait), "true", BIT(SEND), 0, 0, NULL, NULL, "Wait for the result and print it. --no-wait prints the request id.", MR_GROUP_COMMAND, false},
    {"stream", MR_OPTION_BOOL, AT(stream), "true", BIT(SEND) | BIT(BENCH), 0, 0, NULL, NULL, "Request token records, so that the answer streams.", MR_GROUP_COMMAND, false},
    {"timeout", MR_OPTION_DURATION, AT(timeout_ns), "0", ASKING | BIT(TAIL) | BIT(CHECK) | BIT(CANCEL) | BIT(TOPICS) | BIT(REPLAY) | BIT(TOP) | BIT(LAG), 0, 8.64e13, NULL, "TIME", "Stop after this time. 0 waits without a limit.", MR_GROUP_COMMAND, false},
    {"from-beginning", MR_OPTION_BOOL, AT(from_beginning), "false", BIT(TAIL), 0, 0, NULL, NULL, "Start at the oldest record of each partition instead of the end.", MR_GROUP_COMMAND, false},
    {"partitions", MR_OPTION_U32, AT(partitions), "4", BIT(BROKER) | BIT(DEMO), 1, 1024, NULL, "N", "Partitions of each topic of the embedded broker.", MR_GROUP_COMMAND, false},
    {"requests-partitions", MR_OPTION_U32, AT(requests_partitions), "24", BIT(TOPICS), 1, 100000, NULL, "N", "Partitions of a requests topic that is created. At most this many workers share the topic; twice as many partitions as workers spread the load better.", MR_GROUP_COMMAND, false},
    {"replicas", MR_OPTION_U32, AT(replicas), "0", BIT(TOPICS) | BIT(GATEWAY), 0, 100, NULL, "N", "Replicas of a topic that is created. 0 is the broker's default.", MR_GROUP_COMMAND, false},
    {"broker-count", MR_OPTION_U32, AT(broker_count), "1", BIT(BROKER), 1, 16, NULL, "N", "Brokers of the embedded cluster.", MR_GROUP_COMMAND, false},
    {"to", MR_OPTION_TEXT, AT(replay_to), "", BIT(REPLAY), 0, 0, NULL, "TOPIC", "Topic to send to. By default a dead letter goes to the topic that it came from, any other record to the topic that is read.", MR_GROUP_COMMAND, false},
    {"since", MR_OPTION_DURATION, AT(replay_since_ns), "0", BIT(REPLAY), 0, 3.2e16, NULL, "TIME", "Only records of the last TIME, by their timestamps. 0 is all.", MR_GROUP_COMMAND, false},
    {"until", MR_OPTION_DURATION, AT(replay_until_ns), "0", BIT(REPLAY), 0, 3.2e16, NULL, "TIME", "Leave out the records of the last TIME. 0 leaves out none.", MR_GROUP_COMMAND, false},
    {"speed", MR_OPTION_DOUBLE, AT(replay_speed), "0", BIT(REPLAY), 0, 1e6, NULL, "X", "Pace. 1 keeps the intervals between the records' timestamps, 2 is twice as fast, 0 sends all at once.", MR_GROUP_COMMAND, false},
    {"dry-run", MR_OPTION_BOOL, AT(dry_run), "false", BIT(REPLAY), 0, 0, NULL, NULL, "Print what would be sent, and send nothing.", MR_GROUP_COMMAND, false},
    {"once", MR_OPTION_BOOL, AT(once), "false", BIT(TOP), 0, 0, NULL, NULL, "Print one table, of one interval, and end.", MR_GROUP_COMMAND, false},
    {"http-port", MR_OPTION_U32, AT(http_port), "9464", BIT(TOP), 1, 65535, NULL, "PORT", "Port of --http of workers that are found through --brokers. Further workers on a host have the ports that follow.", MR_GROUP_COMMAND, false},
    {"tenant", MR_OPTION_TEXT, AT(tenant), "", BIT(TOP), 0, 0, NULL, "NAME", "Show requests and lag of this tenant only.", MR_GROUP_COMMAND, false},
    {"interval", MR_OPTION_DURATION, AT(interval_ns), "1s", BIT(TOP) | BIT(LAG), 1e8, 3.6e12, NULL, "TIME", "Time between two refreshes: of the screen, or of the figures that lag serves.", MR_GROUP_COMMAND, false},
    {"listen", MR_OPTION_TEXT, AT(listen), "", BIT(LAG) | BIT(GATEWAY), 0, 0, NULL, "HOST:PORT", "Address that serves /metrics, /lag and /livez until a signal. Without it the figures are printed once. For gateway: address of the HTTP server, by default 127.0.0.1:8000. Without --key-file it must be of this machine.", MR_GROUP_FIRST, false},
    {"target", MR_OPTION_DURATION, AT(lag_target_ns), "60s", BIT(LAG), 1e9, 8.64e13, NULL, "TIME", "Time in which the fleet is to finish the waiting requests. The number of needed workers follows from it.", MR_GROUP_FIRST, false},
    {"start-time", MR_OPTION_DURATION, AT(lag_start_ns), "60s", BIT(LAG), 0, 3.6e12, NULL, "TIME", "Time that a new worker needs until it takes requests: the machine, the image, the model. Deadlines are planned with it.", MR_GROUP_COMMAND, false},
    {"engine", MR_OPTION_BOOL, AT(engine), "false", BIT(BENCH), 0, 0, NULL, NULL, "Measure the engine in this process, without Kafka.", MR_GROUP_COMMAND, false},
    {"cache", MR_OPTION_BOOL, AT(cache), "false", BIT(BENCH), 0, 0, NULL, NULL, "Measure the prefix cache in this process, without Kafka: --requests prompts that begin with one of 20 texts, with the cache on and off.", MR_GROUP_COMMAND, true},
    {"mix", MR_OPTION_BOOL, AT(mix), "false", BIT(BENCH), 0, 0, NULL, NULL, "Send --requests prompts of 32 to 512 tokens with answers of 64 tokens, instead of one length.", MR_GROUP_COMMAND, false},
    {"output", MR_OPTION_TEXT, AT(output), "", BIT(BENCH), 0, 0, NULL, "FILE", "File that receives the results as JSON.", MR_GROUP_COMMAND, false},
    {"report", MR_OPTION_TEXT, AT(report), "", BIT(BENCH), 0, 0, NULL, "FILE", "File that receives the results as one HTML page with charts. The page needs no network.", MR_GROUP_COMMAND, false},
    {"objective", MR_OPTION_LIST, AT(objectives), "", BIT(BENCH), 0, 0, NULL, "FIGURE-STATISTIC=TIME", "Objective of the fleet, such as ttft-p99=500ms. The figure is ttft, tpot, itl or e2el; the statistic mean, median, p75, p90, p95, p99 or max. Repeatable.", MR_GROUP_COMMAND, false},
    {"sweep", MR_OPTION_BOOL, AT(sweep), "false", BIT(BENCH), 0, 0, NULL, NULL, "Find the highest rate at which no request fails and each --objective is met, in runs of --requests requests. The first run is at --rate, or at 1 if that is 0.", MR_GROUP_COMMAND, false},
    {"compare", MR_OPTION_BOOL, AT(compare), "false", BIT(BENCH), 0, 0, NULL, NULL, "Compare two files that --output wrote, given as arguments, and measure nothing.", MR_GROUP_COMMAND, false},
    {"requests", MR_OPTION_U32, AT(requests), "200", BIT(BENCH), 1, 10000000, NULL, "N", "Number of requests.", MR_GROUP_COMMAND, false},
    {"concurrency", MR_OPTION_U32, AT(concurrency), "0", BIT(BENCH) | BIT(BATCH), 0, 1048576, NULL, "N", "Most requests in flight. 0 is no limit in bench; in batch it is a number up to 8192 that follows what the fleet answers.", MR_GROUP_COMMAND, false},
    {"rate", MR_OPTION_DOUBLE, AT(rate), "0", BIT(BENCH), 0, 1e6, NULL, "R", "Requests per second, with Poisson arrivals. 0 sends all at once.", MR_GROUP_COMMAND, false},
    {"prompt-tokens", MR_OPTION_U32, AT(prompt_tokens), "512", BIT(BENCH), 1, 1048576, NULL, "N", "Tokens of each prompt.", MR_GROUP_COMMAND, false},
    {"output-tokens", MR_OPTION_U32, AT(output_tokens), "128", BIT(BENCH), 1, 1048576, NULL, "N", "Tokens of each answer.", MR_GROUP_COMMAND, false},
    {"batch", MR_OPTION_U32, AT(batch), "0", BIT(BENCH), 0, 4096, NULL, "N", "Sequences that --engine decodes together, with prompts of --prompt-tokens and answers of --output-tokens. 0 measures several batches and lengths.", MR_GROUP_COMMAND, false},
    {"warmup", MR_OPTION_U32, AT(warmup), "1", BIT(BENCH), 0, 1000, NULL, "N", "Requests sent before the measurement and left out of it.", MR_GROUP_COMMAND, false},
    {"repetitions", MR_OPTION_U32, AT(repetitions), "5", BIT(BENCH), 1, 1000, NULL, "N", "Repetitions of each test of --engine.", MR_GROUP_COMMAND, false},
    {"seed", MR_OPTION_U64, AT(seed), "1", BIT(BENCH), 0, 1.8e19, NULL, "N", "Seed of the prompts and arrival times. Equal seeds give equal work.", MR_GROUP_COMMAND, false},
    {"errors", MR_OPTION_TEXT, AT(batch_errors), "", BIT(BATCH), 0, 0, NULL, "FILE", "File that receives a line for each request without an answer. By default the output's name with .errors after it; with output to stdout these lines go there too.", MR_GROUP_COMMAND, false},
    {"skip-invalid", MR_OPTION_BOOL, AT(skip_invalid), "false", BIT(BATCH), 0, 0, NULL, NULL, "Send the valid lines of an input that has lines with faults. Those get a line in the error file. By default nothing is sent.", MR_GROUP_COMMAND, false},
    {"topic", MR_OPTION_TEXT, AT(batch_topic), "", BIT(BATCH), 0, 0, NULL, "TOPIC", "Requests topic to send to. By default <prefix>.requests.", MR_GROUP_COMMAND, false},
    {"deadline", MR_OPTION_DURATION, AT(batch_deadline_ns), "24h", BIT(BATCH), 1e9, 8.64e13, NULL, "TIME", "Time from the first run of this batch after which requests without an answer get the error batch_expired.", MR_GROUP_COMMAND, false},
    {"cancel", MR_OPTION_BOOL, AT(cancel_job), "false", BIT(BATCH), 0, 0, NULL, NULL, "Cancel the batch: its requests in flight are cancelled, and every line without an answer gets the error batch_cancelled.", MR_GROUP_COMMAND, true},
    {"retry-errors", MR_OPTION_BOOL, AT(retry_errors), "false", BIT(BATCH), 0, 0, NULL, NULL, "Send the requests in the error file of an earlier run again, and remove their lines from it. The deadline starts again.", MR_GROUP_COMMAND, true},
    {"key-file", MR_OPTION_TEXT, AT(key_file), "", BIT(GATEWAY), 0, 0, NULL, "FILE", "File with the API keys: in each line a name, sha256: and the key's hash, and settings such as topic=T, tenant=T, requests=N, tokens=N (limits for a minute) and models=A,B. SIGHUP reads it again. Without it every call is taken.", MR_GROUP_FIRST, false},
    {"reply-partition", MR_OPTION_U32, AT(reply_partition), "auto", BIT(GATEWAY), 0, 1e6, "auto", "N", "Partition of the reply topic that this gateway reads. auto chooses one at random. Gateways can share one.", MR_GROUP_KAFKA, false},
    {"request-timeout", MR_OPTION_DURATION, AT(request_timeout_ns), "10m", BIT(GATEWAY), 1e9, 8.64e13, NULL, "TIME", "Longest time for a call, from its body to the end of its answer. It is the deadline of the request. The header x-timeout-ms of a call can only shorten it.", MR_GROUP_LIMITS, false},
    {"connections", MR_OPTION_U32, AT(connections), "4096", BIT(GATEWAY), 1, 100000, NULL, "N", "Most HTTP connections and calls in flight.", MR_GROUP_LIMITS, false},
    {"buffer-memory", MR_OPTION_BYTES, AT(buffer_bytes), "256MiB", BIT(GATEWAY), 1048576, 1e15, NULL, "SIZE", "Memory for the bodies of calls in flight and for answers that wait for their readers.", MR_GROUP_LIMITS, false},
    {"wait-for-workers", MR_OPTION_BOOL, AT(wait_for_workers), "false", BIT(GATEWAY), 0, 0, NULL, NULL, "Take calls while no worker is running. They wait in Kafka. By default they get status 503.", MR_GROUP_COMMAND, false},
    {"cors-origin", MR_OPTION_TEXT, AT(cors_origin), "", BIT(GATEWAY), 0, 0, NULL, "ORIGIN", "Origin whose pages may call the gateway from a browser, such as https://example.org, or * for all. By default none.", MR_GROUP_COMMAND, false},
    {"tls-cert", MR_OPTION_TEXT, AT(tls_cert), "", BIT(GATEWAY), 0, 0, NULL, "FILE", "PEM file with the certificate chain of the HTTP server. Without it the server is plain HTTP.", MR_GROUP_COMMAND, false},
    {"tls-key", MR_OPTION_TEXT, AT(tls_key), "", BIT(GATEWAY), 0, 0, NULL, "FILE", "PEM file with the private key of --tls-cert.", MR_GROUP_COMMAND, false},
    {"chat", MR_OPTION_TEXT, AT(chat), "", BIT(TOKENIZE), 0, 0, NULL, "FILE", "Request record with messages, in JSON. Print the text that the chat template renders from it, and its token ids.", MR_GROUP_COMMAND, false},
    {"decode", MR_OPTION_BOOL, AT(decode), "false", BIT(TOKENIZE), 0, 0, NULL, NULL, "Read the arguments as token ids and print their text.", MR_GROUP_COMMAND, false},
    {"add-special", MR_OPTION_BOOL, AT(add_special), "true", BIT(TOKENIZE), 0, 0, NULL, NULL, "Add the begin and end tokens that the model's tokenizer defines.", MR_GROUP_COMMAND, false},
    {"parse-special", MR_OPTION_BOOL, AT(parse_special), "true", BIT(TOKENIZE), 0, 0, NULL, NULL, "Read special tokens written in the text as tokens instead of as plain text.", MR_GROUP_COMMAND, false},
};
/* clang-format on */

const size_t mr_option_count = sizeof mr_options / sizeof mr_options[0];

const char *const mr_option_groups[MR_GROUP_COUNT] = {
    [MR_GROUP_FIRST] = "Set these first", [MR_GROUP_MODEL] = "Model and engine",
    [MR_GROUP_LIMITS] = "Limits",         [MR_GROUP_KAFKA] = "Kafka",
    [MR_GROUP_DELIVERY] = "Delivery",     [MR_GROUP_REDIS] = "Redis, the remote cache",
    [MR_GROUP_OBSERVING] = "Observing",   [MR_GROUP_COMMAND] = "Options of this command",
    [MR_GROUP_GENERAL] = "Help",
};

#define MANY ((size_t)1 << 20)

const struct mr_command_entry mr_commands[MR_COMMAND_COUNT] = {
    [MR_COMMAND_HELP] = {"help", "[COMMAND]", "Print the help of a command", 0, 1},
    [MR_COMMAND_VERSION] = {"version", "", "Print the version", 0, 0},
    [MR_COMMAND_SERVE] = {"serve", "", "Run a worker that answers requests from Kafka", 0, 0},
    [MR_COMMAND_DEMO] = {"demo", "[FIELD=VALUE...] [PROMPT...]",
                         "Answer prompts with a broker and a worker in this process", 0, MANY},
    [MR_COMMAND_BROKER] = {"broker", "", "Run the embedded test broker", 0, 0},
    [MR_COMMAND_GATEWAY] = {"gateway", "", "Serve OpenAI's HTTP API in front of the topics", 0, 0},
    [MR_COMMAND_SEND] =
        {"send", "[FIELD=VALUE...] [--] [PROMPT...]",
         "Publish a request, with the prompt in words or on stdin, and print the answer", 0, MANY},
    [MR_COMMAND_BATCH] = {"batch", "INPUT OUTPUT",
                          "Send a file of requests in OpenAI's Batch format, and write the answers "
                          "to a file",
                          2, 2},
    [MR_COMMAND_TAIL] = {"tail", "[ID...]", "Print token records and results as they arrive", 0,
                         MANY},
    [MR_COMMAND_CANCEL] = {"cancel", "ID...", "Cancel requests by id", 1, MANY},
    [MR_COMMAND_TOP] = {"top", "[HOST:PORT...]", "Show a live screen of a fleet", 0, MANY},
    [MR_COMMAND_LAG] =
        {"lag", "",
         "Show the waiting requests, for how long they wait, and how many workers they need", 0, 0},
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
    [MR_COMMAND_COMPLETION] =
        {"completion", "[bash|zsh|fish]",
         "Print the completion script for a shell; without an argument for bash", 0, 1},
};

const char *mr_command_name(enum mr_command command)
{
    MR_ASSERT((unsigned)command < MR_COMMAND_COUNT);
    return mr_commands[command].name;
}

bool mr_option_is_of(const struct mr_option *option, unsigned command)
{
    return option->commands >> command & 1u;
}

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

const char *mr_option_nearest(const char *name, uint32_t commands)
{
    struct mr_nearest nearest = {.written = {name, strlen(name)}};
    for (size_t i = 0; i < mr_option_count; i++)
        if (mr_options[i].commands & commands) mr_nearest_consider(&nearest, mr_options[i].name);
    return nearest.name;
}

const char *mr_word_nearest(const char *written, const char *const *words, size_t count)
{
    struct mr_nearest nearest = {.written = {written, strlen(written)}};
    for (size_t i = 0; i < count; i++)
        mr_nearest_consider(&nearest, words[i]);
    return nearest.name;
}

const char *mr_command_nearest(const char *name)
{
    struct mr_nearest nearest = {.written = {name, strlen(name)}};
    for (size_t i = 0; i < MR_COMMAND_COUNT; i++)
        mr_nearest_consider(&nearest, mr_commands[i].name);
    return nearest.name;
}
