/* broker - Apache Kafka in memory under virtual time: logs, transactions, one consumer group.
 *
 * Its state: topics with partitions; records with producers' and append times; control markers,
 * each of which has an offset; aborted and open transactions and the last stable offset; log starts
 * (retention) and removed records (compaction); committed offsets with metadata, also pending ones
 * of open transactions; a consumer group with both protocols; transactional ids with epochs.
 *
 * A client's call (clients.h) takes effect when the broker's event for it is due. Every request and
 * every answer is an event with a latency. While the broker is down, events that need it wait.
 *
 * The log keeps every record that was ever appended, for the judge.
 *
 * Owner: one run. Memory: an arena that is freed with the run. Errors: asserted. */
#ifndef MR_TESTS_SIM_FLEET_BROKER_H
#define MR_TESTS_SIM_FLEET_BROKER_H

#include "tests/sim/fleet/coverage.h"
#include "tests/sim/fleet/platform.h"
#include "worker/kafka/kafka_record.h"

#define BROKER_TOPICS_MAX     8u
#define BROKER_PARTITIONS_MAX 8u
#define BROKER_MEMBERS_MAX    16u
#define BROKER_GROUPED_MAX    16u /* partitions of the topics that the group consumes */
#define BROKER_EVENTS_MAX     4096u

struct sim_consumer;
struct sim_reader;
struct sim_producer;
struct broker;

enum broker_state { BROKER_OPEN, BROKER_COMMITTED, BROKER_ABORTED };

/* A transaction, or a transactional id between two of them. */
struct broker_transaction {
    struct broker_transaction *next;
    const char *id;
    uint32_t epoch; /* epoch of the id when the transaction began */
    enum broker_state state;
    uint64_t began_ns, timeout_ns;
    struct broker_offset *offsets; /* pending offsets, which are committed with the transaction */
};

struct broker_record {
    struct mr_kafka_record record; /* includes topic, partition, offset and timestamp */
    uint64_t appended_ns;
    int64_t appended_ms;
    struct broker_transaction *transaction; /* NULL: none */
    bool marker;                            /* the end of a transaction; readers skip it */
    bool removed;                           /* deleted by retention or compaction */
    bool of_zombie;                         /* the group had removed its worker before */
    uint64_t
        owned_since_ns; /* for a result: when its worker was assigned the request's partition */
};

struct broker_log {
    struct broker_record **records; /* [end]; the index is the offset */
    int64_t begin, end, max;
};

struct broker_topic {
    const char *name;
    uint32_t partition_count;
    struct broker_log logs[BROKER_PARTITIONS_MAX];
    int group_index; /* index of its first partition among those of the group; -1: not consumed */
};

/* A commit. The newest commit of a partition is the group's. */
struct broker_offset {
    struct broker_offset *next; /* in the list of a transaction, or of all commits by age */
    uint32_t topic;
    int32_t partition;
    int64_t offset;
    const char *metadata;
    int64_t time_ms;
};

/* ---- the consumer group ---- */

enum broker_group_state { GROUP_EMPTY, GROUP_PREPARING, GROUP_STABLE };

struct broker_member {
    struct sim_consumer *consumer; /* NULL: free */
    uint32_t id;                   /* never used twice */
    bool joined;                   /* has joined the rebalance that is being prepared */
    uint64_t heard_ns;             /* time of this member's last request */
    uint32_t owned;    /* bit mask of the partitions that it reported as owned when it joined */
    uint32_t assigned; /* bit mask of the partitions that the last generation assigned to it */
};

struct broker_group {
    enum broker_group_state state;
    int32_t generation;
    bool cooperative;
    uint64_t prepared_ns; /* when the rebalance began */
    struct broker_member members[BROKER_MEMBERS_MAX];
    uint32_t next_id, partition_count;
    struct broker_offset *committed[BROKER_GROUPED_MAX]; /* NULL: none */
    struct broker_offset *commits, **commits_end;        /* all, oldest first */
    uint64_t session_ns, rebalance_ns;
};

/* ---- events ---- */

/* A request of which a fault dropped a token record. */
struct broker_lost {
    struct broker_lost *next;
    const char *id;
};

struct broker_event {
    uint64_t due_ns, order;
    void (*run)(struct broker *broker, void *context, uint64_t value);
    void *context;
    uint64_t value;
    bool remote; /* needs the broker, so it waits while the broker is down */
};

struct broker_options {
    uint64_t seed;
    bool cooperative;
    uint64_t session_ns, rebalance_ns, transaction_ns;
    uint64_t latency_ns; /* shortest latency of one direction; a random time is added */
};

struct broker {
    struct broker_options options;
    struct sim_random random;
    struct broker_topic topics[BROKER_TOPICS_MAX];
    uint32_t topic_count;
    struct broker_group group;
    struct broker_transaction *transactions; /* all, newest first */
    struct sim_consumer *consumers;          /* all that were ever opened, newest first */
    struct sim_reader *readers;
    struct sim_producer *producers;
    struct broker_event events[BROKER_EVENTS_MAX]; /* a heap */
    uint32_t event_count;
    uint64_t event_order;
    uint64_t down_until_ns, slow_until_ns, expired_ns;
    /* per cent of the produce requests whose record is refused, of those whose answer is lost, and
     * of the commits that fail */
    uint32_t refuse_percent, lose_percent, commit_fail_percent, transaction_fail_percent;
    struct broker_lost *lost;
    uint32_t lost_assignments; /* how often a member was notified that its partitions are lost */
    uint64_t hash;             /* hash of all events, in order */
    char wrong[256];           /* the first violation of a rule by a worker; "": none */
    struct coverage *coverage;
    bool trace;
    struct broker_chunk *chunks;
};

struct broker *broker_create(const struct broker_options *options, struct coverage *coverage);
void broker_destroy(struct broker *broker);
uint32_t broker_add_topic(struct broker *broker, const char *name, uint32_t partitions,
                          bool grouped);
/* Zeroed memory that is freed with the broker. */
void *broker_memory(struct broker *broker, size_t bytes);
const char *broker_text(struct broker *broker, const char *text, size_t length);

/* Prints one line of the trace, if tracing is on. */
__attribute__((format(printf, 2, 3))) void broker_note(struct broker *broker, const char *format,
                                                       ...);
/* Keeps the first violation of a run. */
__attribute__((format(printf, 2, 3))) void broker_accuse(struct broker *broker, const char *format,
                                                         ...);
/* Adds a number to the hash of all events. */
void broker_mix(struct broker *broker, uint64_t value);
void broker_cover(struct broker *broker, enum coverage_kind kind);

/* Schedules an event delay_ns from now. remote: a request to the broker. */
void broker_schedule(struct broker *broker, uint64_t delay_ns, bool remote,
                     void (*run)(struct broker *broker, void *context, uint64_t value),
                     void *context, uint64_t value);
/* The time of the next event; UINT64_MAX: none. */
uint64_t broker_next_ns(const struct broker *broker);
/* Runs the events that are due. */
void broker_run(struct broker *broker);
/* A random latency for a message in one direction. */
uint64_t broker_latency(struct broker *broker);
bool broker_is_down(const struct broker *broker);
/* Stops the broker for this time. Requests in flight are sent again when it is up. */
void broker_stop(struct broker *broker, uint64_t for_ns);

/* ---- topics and records ---- */

/* The index of the topic; SIZE_MAX: no such topic. */
size_t broker_find_topic(const struct broker *broker, const char *name);
uint32_t broker_partition_of(const struct broker_topic *topic, struct mr_text key);
/* Appends a copy; record->partition is valid. Returns the offset. */
int64_t broker_append(struct broker *broker, const struct mr_kafka_record *record,
                      struct broker_transaction *transaction);
/* The offset before which every transaction has ended. */
int64_t broker_stable(const struct broker_log *log);
/* The first record at or after *offset that a reader gets, if it was appended by arrived_ns; else
 * NULL. Sets *offset to the offset after the record, or after the skipped records. */
const struct broker_record *broker_read(const struct broker_log *log, int64_t *offset,
                                        bool committed_only, uint64_t arrived_ns);
/* The first offset whose record has a timestamp of since_ms or later; -1: none. */
int64_t broker_find_time(const struct broker_log *log, int64_t since_ms);
/* Removes the records below the offset (DeleteRecords, retention). */
void broker_delete_before(struct broker *broker, uint32_t topic, int32_t partition, int64_t offset);
/* Removes all stable records except the newest one of each key. */
void broker_compact(struct broker *broker, uint32_t topic);

/* ---- transactions ---- */

/* Fences producers of this id and aborts their open transaction. Returns the new epoch. */
uint32_t broker_init_transactions(struct broker *broker, const char *id);
struct broker_transaction *broker_begin(struct broker *broker, const char *id, uint32_t epoch);
/* Commits or aborts: writes the markers, applies the offsets. */
void broker_end(struct broker *broker, struct broker_transaction *transaction, bool commit);
/* Whether the id still has this epoch. */
bool broker_is_current(const struct broker *broker, const char *id, uint32_t epoch);
/* Whether offsets of a grouped partition are pending in an open transaction. */
bool broker_is_unstable(const struct broker *broker, uint32_t group_index);
/* Aborts the transactions that have exceeded their timeout. */
void broker_expire(struct broker *broker);

/* ---- the group (broker_group.c) ---- */

/* The index among the group's partitions; -1: the group does not consume it. */
int broker_group_index(const struct broker *broker, uint32_t topic, int32_t partition);
void broker_group_place(const struct broker *broker, uint32_t group_index, uint32_t *topic,
                        int32_t *partition);
/* A member joins; id 0: a new member. owned: the partitions that it has now. Returns its id. */
uint32_t broker_join(struct broker *broker, struct sim_consumer *consumer, uint32_t id,
                     uint32_t owned);
void broker_leave(struct broker *broker, uint32_t id);

/* OLD: its generation is over. UNKNOWN: it is not a member. */
enum broker_answer { ANSWER_OK, ANSWER_REBALANCE, ANSWER_OLD, ANSWER_UNKNOWN };
enum broker_answer broker_heartbeat(struct broker *broker, uint32_t id, int32_t generation);
/* Whether a commit of this member is accepted now. */
enum broker_answer broker_may_commit(struct broker *broker, uint32_t id, int32_t generation);
void broker_commit(struct broker *broker, struct broker_offset *offset);
/* Expires sessions, and completes a rebalance that is due. */
void broker_group_tick(struct broker *broker);

#endif
