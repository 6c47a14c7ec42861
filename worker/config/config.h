/* config - the values of all options, typed and range-checked. worker/config/options.c fills them
 * from the table in worker/config/options_table.c. A field has the name of its option, with
 * underscores and a unit (kv_memory_bytes: --kv-memory; durations are in nanoseconds). Texts are
 * never NULL: "" when unset.
 *
 * Owner: see worker/config/options.h. Read-only once created. */
#ifndef MR_WORKER_CONFIG_CONFIG_H
#define MR_WORKER_CONFIG_CONFIG_H

#include "worker/base/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mr_command {
    MR_COMMAND_HELP, /* also: no command */
    MR_COMMAND_VERSION,
    MR_COMMAND_SERVE,
    MR_COMMAND_DEMO,
    MR_COMMAND_BROKER,
    MR_COMMAND_SEND,
    MR_COMMAND_TAIL,
    MR_COMMAND_CANCEL,
    MR_COMMAND_TOP,
    MR_COMMAND_BENCH,
    MR_COMMAND_CHECK,
    MR_COMMAND_TOKENIZE,
    MR_COMMAND_REPLAY,
    MR_COMMAND_MAN,        /* prints the manual page */
    MR_COMMAND_COMPLETION, /* prints the bash completion */
    MR_COMMAND_COUNT
};

enum mr_delivery { MR_DELIVERY_AT_LEAST_ONCE, MR_DELIVERY_EXACTLY_ONCE };
enum mr_foreign_commits { MR_FOREIGN_COMMITS_REFUSE, MR_FOREIGN_COMMITS_IGNORE };
enum mr_on_revoke { MR_ON_REVOKE_DROP, MR_ON_REVOKE_DRAIN };
enum mr_redis_kv { MR_REDIS_KV_EXACT, MR_REDIS_KV_INT8 };

#define MR_LIST_MAX ((size_t)64) /* most values of one repeatable option */

/* The values of a repeatable option. */
struct mr_text_list {
    const char *values[MR_LIST_MAX];
    size_t count;
};

/* The parts of one --requests-topic NAME[,priority=N][,weight=N][,tenant=NAME]...; see its help. */
struct mr_request_topic {
    const char *name, *tenant;
    uint32_t tenant_index; /* equal for all topics of one tenant; below tenant_count */
    int32_t priority;      /* added to the priority of each request */
    uint32_t weight; /* turns of the topic when records are taken; 0: derived from the priority */
    uint64_t queue_limit_ns, run_limit_ns; /* longest wait and run of a request; 0: no limit */
    bool strict;                           /* rejects requests with unknown fields */
};

struct mr_config {
    enum mr_command command;
    const char *const *arguments; /* [argument_count] the words after the options */
    size_t argument_count;
    const char *config;      /* path of the YAML file; "": none */
    bool help, print_config; /* --help, --print-config given */

    /* model and engine */
    const char *model;      /* GGUF file or Hugging Face folder */
    const char *model_name; /* name in records; filled from the file's name unless given */
    const char *device;     /* cpu, cuda, cuda:n */
    const char *dtype;      /* auto fp32 bf16 fp16 int8 int4 */
    uint32_t threads;       /* 0: one per core */
    uint64_t kv_memory_bytes;
    uint32_t context_tokens; /* 0: the model's own length */
    uint32_t max_sequences;
    int32_t chunk_tokens;    /* <= 0: no chunking */
    uint32_t step_tokens;    /* most rows of one step, one row per token */
    uint32_t chunk_requests; /* most requests in chunked prefill */
    uint32_t step_target_ms; /* 0: no target */
    bool deterministic, prefix_cache;
    uint32_t prompt_entries; /* most complete prompts cached */
    uint64_t prompt_entry_ttl_ns;
    uint64_t session_keep_ns;
    uint32_t session_share; /* percent of the KV pool */
    uint32_t default_max_tokens;

    /* queue */
    uint32_t queue_requests; /* most requests waiting in this worker */
    uint64_t queue_bytes;
    uint32_t queue_pools; /* predicted KV of waiting requests, in KV pools; 0: no limit */
    struct mr_text_list tenant_weight;    /* TENANT=N as given */
    uint32_t tenant_weights[MR_LIST_MAX]; /* [tenant_count], by tenant_index */
    uint32_t tenant_count;
    bool deadline_admission; /* rejects requests that cannot finish by their deadline */
    uint64_t max_record_bytes;

    /* Kafka */
    const char *brokers, *prefix, *group;
    struct mr_text_list requests_topic; /* as given */
    struct mr_request_topic request_topics[MR_LIST_MAX];
    size_t request_topic_count; /* at least 1: <prefix>.requests unless named */
    const char *tokens_topic, *results_topic, *cancel_topic,
        *dlq_topic;                   /* filled from prefix unless given */
    struct mr_text_list reply_topics; /* that kafka_replyTopic may name */
    struct mr_text_list kafka;        /* NAME=VALUE */
    const char *group_instance;       /* static member name; "": none */
    enum mr_foreign_commits foreign_commits;
    enum mr_delivery delivery;
    enum mr_on_revoke on_revoke; /* running requests of a revoked partition: drop or finish them */
    uint64_t revoke_timeout_ns;  /* most time for finishing them */
    bool strict;
    uint64_t commit_interval_ns, drain_timeout_ns, session_timeout_ns, poll_interval_max_ns;
    uint64_t token_linger_ns, broker_timeout_ns;
    uint32_t attempts_max; /* attempts of a crashing request before it is dead-lettered */
    const char *worker_id; /* filled with HOST-PID unless given */

    /* Redis, HTTP, log */
    const char *redis; /* URL; "": no Redis. Holds a password: never log it unmasked */
    const char *redis_password_file, *redis_key_file, *redis_ca, *redis_cert, *redis_cert_key;
    uint32_t redis_connections;
    uint64_t redis_timeout_ns, redis_transfer_timeout_ns, redis_ttl_ns;
    uint64_t redis_store_bytes, redis_write_budget;
    enum mr_redis_kv redis_kv; /* form of KV blocks in Redis; exact without Redis */
    bool redis_second_touch, resume;
    uint64_t resume_ttl_ns, resume_bytes;
    const char *http; /* HOST:PORT; "": no HTTP server */
    enum mr_log_format log_format;
    enum mr_log_level log_level;
    uint64_t stats_interval_ns; /* 0: no stats line */

    /* client commands */
    const char *id;                    /* send: request id; "": random */
    bool msgpack, json, wait, stream;  /* send, tail and others: encoding and output */
    uint64_t timeout_ns;               /* send, tail, cancel, bench: give up after; 0: never */
    bool from_beginning;               /* tail */
    uint32_t partitions, broker_count; /* broker, demo */
    uint64_t interval_ns;              /* top */
    bool cache;                        /* bench --cache */
    bool engine, mix;                  /* bench --engine, --mix */
    const char *output;                /* bench: file of the results */
    uint32_t requests, concurrency;    /* bench */
    double rate;                       /* bench: requests per second; 0: all at once */
    uint32_t prompt_tokens, output_tokens, warmup, repetitions;
    uint64_t seed;
    bool decode, add_special, parse_special; /* tokenize */

    struct mr_config_store *store; /* texts and origins; only worker/config uses it */
};

#endif
