/* config - the values of all options of millrace, typed and range-checked. worker/config/options.c
 * fills them from the table in worker/config/options_table.c. A field has the name of its option,
 * with underscores and a unit (kv_memory_bytes is --kv-memory; durations are in nanoseconds). Texts
 * are never NULL: "" means unset.
 *
 * Owner: see worker/config/options.h. Read-only once created. */
#ifndef MR_WORKER_CONFIG_CONFIG_H
#define MR_WORKER_CONFIG_CONFIG_H

#include "worker/base/log.h"
#include "worker/config/choices.h"
#include "worker/config/request_topic.h"

/* value of a number option that is set to its word, such as auto */
#define MR_OPTION_AUTO UINT32_MAX

struct mr_config {
    enum mr_command command;
    const char *const *arguments; /* [argument_count]: the words after the options */
    size_t argument_count;
    size_t plain_count;                    /* how many of them come after the word -- */
    const char *config;                    /* path of the YAML file of options; "": none */
    bool help, print_config;               /* --help or --print-config was given */
    struct mr_text_list ignored_variables; /* names that describe Kubernetes services */

    /* options of the model and the engine */
    const char *model, *chat_template; /* GGUF file or folder; Jinja file, "": the model's */
    const char *model_name;            /* the model's name in records; default: from its path */
    struct mr_text_list adapter;       /* NAME=PATH texts of --adapter, checked */
    const char *adapters;              /* folder of adapters; "": none */
    uint64_t adapter_memory_bytes;
    const char *device, *backend; /* cpu, cuda or cuda:N; auto, cpu or torch */
    const char *cuda_kernels;     /* auto, no-graphs or off */
    const char *dtype;            /* auto, fp32, bf16, fp16, int8 or int4 */
    uint32_t threads;             /* number of compute threads; 0: one per core */
    enum mr_kv_dtype kv_dtype;
    uint64_t kv_memory_bytes;
    bool kv_memory_given;    /* not the default, which shrinks with the memory of the process */
    uint32_t context_tokens; /* longest sequence; 0: the model's own limit */
    uint32_t max_sequences;
    int32_t chunk_tokens;    /* most prompt tokens per chunk; <= 0: no chunking */
    uint32_t step_tokens;    /* most tokens computed in one engine step */
    uint32_t chunk_requests; /* most requests in chunked prefill at a time */
    uint32_t step_target_ms; /* duration of a step to aim for; 0: none; or MR_OPTION_AUTO */
    enum mr_speculation speculation;
    bool deterministic, prefix_cache;
    uint32_t prompt_entries; /* most complete prompts in the cache */
    uint64_t prompt_entry_ttl_ns;
    uint64_t session_keep_ns;
    uint32_t default_max_tokens;

    /* options of the request queue */
    uint32_t queue_requests; /* most requests waiting in this worker */
    uint64_t queue_bytes, prefetch_bytes;
    struct mr_text_list tenant_weight;    /* TENANT=N texts, not parsed */
    uint32_t tenant_weights[MR_LIST_MAX]; /* [tenant_count], by tenant_index */
    struct mr_text_list tenant_quota;     /* TENANT=N/PERIOD texts, not parsed */
    uint64_t minute_quotas[MR_LIST_MAX], day_quotas[MR_LIST_MAX]; /* like weights; 0: none */
    uint32_t tenant_count;
    bool deadline_admission; /* rejects requests that cannot meet their deadline */
    uint64_t max_record_bytes;

    /* options of Kafka */
    const char *brokers, *prefix, *group;
    struct mr_text_list requests_topic; /* NAME[,...] texts, not parsed */
    struct mr_request_topic request_topics[MR_LIST_MAX];
    size_t request_topic_count; /* at least 1: by default <prefix>.requests */
    const char *tokens_topic, *results_topic, *cancel_topic, *dlq_topic; /* or from prefix */
    struct mr_text_list reply_topics; /* allowed in kafka_replyTopic; default: <prefix>.replies */
    struct mr_text_list kafka;        /* NAME=VALUE texts of --kafka */
    struct mr_text_list kafka_given;  /* the same before @FILE and env:NAME were replaced */
    const char *group_instance;       /* name as a static group member; "": none */
    enum mr_foreign_commits foreign_commits;
    enum mr_delivery delivery;
    enum mr_duplicate_id duplicate_id;
    enum mr_log_replaced on_log_replaced;
    enum mr_on_revoke on_revoke;
    uint64_t revoke_timeout_ns; /* longest time to finish them with on_revoke = drain */
    bool strict;
    uint64_t commit_interval_ns, drain_timeout_ns, session_timeout_ns, poll_interval_max_ns;
    uint64_t token_linger_ns, broker_timeout_ns;
    uint32_t attempts_max; /* attempts of a crashing request before it is dead-lettered */
    const char *worker_id; /* default: HOST-PID */
    const char *state_dir; /* "": see worker/offsets/handover.h */

    /* options of Redis, HTTP and the log */
    const char *redis; /* URL; "": no Redis. Holds a password: never log it unmasked */
    const char *redis_password_file, *redis_key_file, *redis_ca, *redis_cert, *redis_cert_key;
    uint32_t redis_connections;
    uint64_t redis_timeout_ns, redis_ttl_ns, redis_write_budget;
    enum mr_redis_kv redis_kv;
    bool redis_second_touch, resume;
    uint64_t resume_ttl_ns;
    const char *http;           /* HOST:PORT of the HTTP server; "": no server */
    const char *trace_endpoint; /* URL of the trace collector; "": no spans */
    double trace_sample;        /* share of the requests without traceparent that are sampled */
    enum mr_log_format log_format;
    enum mr_log_level log_level;
    uint64_t stats_interval_ns; /* between log lines with statistics; 0: none */

    /* options of the client commands; each comment names the commands */
    const char *id;                    /* send: request id; "": random */
    bool msgpack, json, wait, stream;  /* send, tail and others: encoding and output */
    uint64_t timeout_ns;               /* send, tail, cancel, bench: give up after this; 0: never */
    bool from_beginning;               /* tail: start with the oldest record */
    uint32_t partitions, broker_count; /* broker, demo: of the embedded broker */
    uint32_t requests_partitions, replicas; /* of topics that are created; replicas 0: default */
    uint64_t interval_ns;                   /* top, lag */
    uint32_t http_port;                     /* top: of workers found through their group */
    const char *tenant;                     /* top: "": all */
    const char *listen;                     /* lag, gateway: HOST:PORT; "": lag prints once */
    uint64_t lag_target_ns, lag_start_ns;   /* lag: --target, --start-time */
    bool cache, engine, mix;                /* bench: --cache, --engine, --mix */
    bool sweep, compare;                    /* bench: --sweep, --compare */
    struct mr_text_list objectives;         /* bench: FIGURE-STATISTIC=TIME each */
    const char *output, *report;            /* bench: files for the results as JSON and as a page */
    const char *chat;                       /* tokenize: file with a record */
    uint32_t requests, concurrency;         /* bench, batch: number of requests; most in flight */
    const char *replay_to;                  /* replay: topic; "": where a record came from */
    uint64_t replay_since_ns, replay_until_ns; /* replay: age of the records; 0: no limit */
    double replay_speed;                       /* replay: 1: original pace; 0: all at once */
    bool dry_run, once;                        /* replay; top */
    double rate;                               /* bench: requests per second; 0: all at once */
    uint32_t prompt_tokens, output_tokens, batch, warmup, repetitions;
    uint64_t seed;
    bool decode, add_special, parse_special;     /* the flags of tokenize */
    const char *batch_errors;                    /* batch: error file; "": from the output's name */
    const char *batch_topic;                     /* batch: "": the first requests topic */
    uint64_t batch_deadline_ns;                  /* batch */
    bool skip_invalid, cancel_job, retry_errors; /* batch; cancel_job: --cancel */
    /* gateway: */
    const char *key_file, *cors_origin, *tls_cert, *tls_key; /* "": none */
    uint32_t reply_partition, connections; /* the partition may be MR_OPTION_AUTO */
    uint64_t request_timeout_ns, buffer_bytes;
    bool wait_for_workers;

    struct mr_config_store *store; /* private to worker/config: memory of the texts */
};

#endif
