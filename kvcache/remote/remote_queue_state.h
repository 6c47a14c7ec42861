/* remote_queue_state - the parts of the queue (kvcache/remote/remote_queue.h), private to that
 * module: the memory of operations, the pace of loads, the operations in the queue.
 *
 * Owner: the queue, under its lock. Clock: passed in. */
#ifndef MR_KVCACHE_REMOTE_REMOTE_QUEUE_STATE_H
#define MR_KVCACHE_REMOTE_REMOTE_QUEUE_STATE_H

#include "kvcache/remote/byte_budget.h"
#include "kvcache/remote/key_memory.h"
#include "kvcache/remote/remote_queue.h"

/* ---- memory: pieces of one block, so that an operation needs no malloc ---- */
struct mr_queue_memory;
enum mr_status mr_queue_memory_create(struct mr_queue_memory **out, size_t bytes,
                                      struct mr_error *err);
/* Frees the whole block, with the pieces still in use. memory may be NULL. */
void mr_queue_memory_destroy(struct mr_queue_memory *memory);
/* Returns a zeroed piece, aligned like memory from malloc; NULL when no gap is large enough. */
void *mr_queue_memory_take(struct mr_queue_memory *memory, size_t bytes);
void mr_queue_memory_give(struct mr_queue_memory *memory, void *bytes);
/* Returns the bytes in use, including piece headers. Asserts that the pieces fill the block. */
size_t mr_queue_memory_check(const struct mr_queue_memory *memory);

/* ---- pace: bytes of loads in flight (requested and not received), rates ---- */
#define MR_LOAD_AHEAD_NS    ((uint64_t)20000000)
#define MR_LOAD_AHEAD_BYTES ((uint64_t)16 << 20)
#define MR_LOAD_AHEAD_FIRST (MR_LOAD_AHEAD_BYTES / 4)

struct mr_load_pace {
    uint64_t in_flight[MR_REMOTE_THREADS_MAX]; /* by connection thread */
    uint64_t in_flight_bytes;                  /* sum of in_flight */
    uint64_t limit_bytes;
    uint64_t received_ns;    /* as in struct mr_remote_rates */
    double bytes_per_second; /* running mean of the bandwidth of loads; 0: not known yet */
    uint64_t measured_ns;    /* when bytes_per_second was last updated */
    uint64_t round_trip_ns;  /* running mean of the time that a lookup takes; 0: not known yet */
};
void mr_load_pace_init(struct mr_load_pace *pace);
bool mr_load_pace_allows(const struct mr_load_pace *pace, uint32_t thread, uint64_t bytes);
void mr_load_pace_request(struct mr_load_pace *pace, uint32_t thread, uint64_t bytes,
                          uint64_t now_ns);
/* Call it when a requested slice was received, or can no longer be received. */
void mr_load_pace_finish(struct mr_load_pace *pace, uint32_t thread, uint64_t bytes);
void mr_load_pace_receive(struct mr_load_pace *pace, uint64_t bytes, uint64_t now_ns);
/* Adds a bandwidth, of a finished load or a measurement with ECHO, to the running mean. */
void mr_load_pace_measure(struct mr_load_pace *pace, double bytes_per_second, uint64_t now_ns);
void mr_load_pace_lookup_took(struct mr_load_pace *pace, uint64_t took_ns);
/* Whether the bandwidth has to be measured with ECHO: it was never measured, or the last time is
 * long ago and a lookup was posted since then, at lookup_ns. */
bool mr_load_pace_is_stale(const struct mr_load_pace *pace, uint64_t lookup_ns, uint64_t now_ns);
void mr_load_pace_check(const struct mr_load_pace *pace);

/* ---- operations ---- */
struct mr_queued_value {
    unsigned char key[MR_HASH_BYTES];
    size_t length;
    uint32_t open;      /* slices of the value whose commands have not ended */
    bool failed;        /* loading or storing a slice failed */
    bool not_written;   /* only in a store: Redis has it, first offer, or a limit is reached */
    size_t write_bytes; /* only in a store: bytes of the slices that its lookup did not find */
    bool present;       /* Redis has every slice of the value */
};

struct mr_queued_answer {
    struct mr_queued_answer *next;
    struct mr_queued_operation *operation;
    struct mr_remote_answer answer;
};

/* A posted operation with its values cut into slices: one piece of memory, which lives until the
 * engine has polled the final answer and the last command has ended. */
struct mr_queued_operation {
    struct mr_queued_operation *next_all, *next; /* in the list of all, of those that wait */
    enum mr_remote_kind kind;
    uint64_t id, posted_ns, begun_ns, deadline_ns, done_bytes;
    struct mr_queued_value *values;   /* [value_count] */
    struct mr_remote_slice *slices;   /* [slice_count] */
    struct mr_queued_answer *answers; /* [value_count + 1]; the last one is the final answer */
    uint32_t value_count, slice_count;
    uint32_t untaken; /* slices that no connection thread has taken */
    uint32_t open;    /* slices whose commands have not ended */
    uint32_t refs;    /* slices taken, plus one until the engine has polled the final answer */
    uint32_t skip_below;
    uint64_t bytes;  /* of all values; in a store of those to be looked up or written */
    uint64_t tenant; /* only in a store: the tenant whose budget is charged (byte_budget.h) */
    bool cancelled, final, late;
};
struct mr_queued_operation_options {
    enum mr_remote_kind kind;
    const struct mr_remote_operation *posted;
    uint64_t now_ns, deadline_ns;
    enum mr_frame_codec codec;
};
/* Memory that the operation needs; 0: it would have too many slices. */
size_t mr_queued_operation_bytes(const struct mr_remote_operation *posted);
/* Makes an operation in zeroed memory of that size. */
struct mr_queued_operation *
mr_queued_operation_init(void *memory, const struct mr_queued_operation_options *options);
/* Number of values that Redis has: in a lookup up to the first absent one, else all. */
uint32_t mr_queued_operation_present(const struct mr_queued_operation *operation);
struct mr_queued_list { /* FIFO; zeroed: empty */
    struct mr_queued_operation *first, *last;
};
void mr_queued_list_push(struct mr_queued_list *list, struct mr_queued_operation *operation);
void mr_queued_list_remove(struct mr_queued_list *list, struct mr_queued_operation *operation);

/* All operations. One waits in one of three lists. */
struct mr_operations {
    uint32_t thread_count, operation_count;
    uint32_t wakes, refused; /* bit i: wake thread i after the unlock; the pace refused it a load */
    struct {
        void (*wake)(void *context);
        void *context;
    } threads[MR_REMOTE_THREADS_MAX];
    struct mr_queued_operation *all;
    struct mr_queued_list lookups, loads, stores;
    struct mr_queued_answer *first_answer, *last_answer;
    bool answered; /* an answer was posted since the last _take_answered */
    struct mr_queue_memory *memory;
    struct mr_key_memory *present; /* keys that Redis was seen to have */
    struct mr_byte_budget budget;  /* of the bytes stored for each tenant */
    struct mr_load_pace pace;
    struct mr_remote_queue_stats stats;
};
enum mr_status mr_operations_create(struct mr_operations *operations, uint32_t thread_count,
                                    uint64_t present_ns, struct mr_error *err);
void mr_operations_destroy(struct mr_operations *operations); /* also after a failed _create */
/* Marks the connection threads first .. end - 1 to be woken after the unlock. */
void mr_operations_wake(struct mr_operations *operations, uint32_t first, uint32_t end);
void mr_operations_count(struct mr_operations *operations, enum mr_remote_counter counter,
                         uint64_t amount);
/* Adds an operation, which ends at once if none of its slices needs a command. */
void mr_operations_add(struct mr_operations *operations, struct mr_queued_operation *operation,
                       uint64_t now_ns);
/* Ends the untaken slices of values below `below`; _list: those of whole operations. */
void mr_operations_drop(struct mr_operations *operations, struct mr_queued_operation *operation,
                        uint32_t below, uint64_t now_ns);
void mr_operations_drop_list(struct mr_operations *operations, struct mr_queued_list *list,
                             uint64_t now_ns);
/* Like the functions of the same name in remote_queue.h, without the lock. */
bool mr_operations_poll(struct mr_operations *operations, struct mr_remote_answer *answer);
struct mr_remote_slice *mr_operations_take(struct mr_operations *operations, uint32_t thread,
                                           uint64_t now_ns);
bool mr_operations_finish(struct mr_operations *operations, struct mr_remote_slice *slice,
                          bool good, uint64_t now_ns);
void mr_operations_release(struct mr_operations *operations, struct mr_remote_slice *slice,
                           uint64_t now_ns);
void mr_operations_check(const struct mr_operations *operations);

#endif
