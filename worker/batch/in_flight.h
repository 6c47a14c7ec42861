/* in_flight - the lines of a batch that have been sent or are to be sent again, and have no answer
 * yet, by line number.
 *
 * Owner:  one thread. Memory: an entry and the bytes of its line; the caller bounds both (count,
 *         bytes). Errors: _add returns NULL when memory is out. */
#ifndef MR_WORKER_BATCH_IN_FLIGHT_H
#define MR_WORKER_BATCH_IN_FLIGHT_H

#include "codec/hash_table.h"
#include "codec/text.h"

#include <stddef.h>
#include <stdint.h>

struct mr_batch_flight_entry {
    struct mr_hash_entry hash;
    uint64_t line;
    uint32_t try; /* of the record that is sent or to be sent */
    char *text;   /* the line; NULL: it was sent by an earlier run and is not loaded yet */
    size_t length;
    uint64_t due_ns; /* when to send the record; 0: it is sent */
    /* place of the last acknowledged record of the line; offset -1: none */
    int32_t partition;
    int64_t offset;
    /* place of the result that is answered by sending the line again, until that record is
     * acknowledged; offset -1: none */
    int32_t result_partition;
    int64_t result_offset;
    struct mr_batch_flight_entry *previous, *next; /* of the list `waiting` */
};

struct mr_batch_flight {
    struct mr_hash_table table;
    struct mr_batch_flight_entry *waiting; /* entries with due_ns */
    size_t count, bytes;
};

/* False: no memory. expected: number of entries. */
bool mr_batch_flight_create(struct mr_batch_flight *flight, uint32_t expected);
/* Frees all entries. */
void mr_batch_flight_destroy(struct mr_batch_flight *flight);
struct mr_batch_flight_entry *mr_batch_flight_find(const struct mr_batch_flight *flight,
                                                   uint64_t line);
/* Adds a line that has no entry. */
struct mr_batch_flight_entry *mr_batch_flight_add(struct mr_batch_flight *flight, uint64_t line);
/* Copies the text of the line; false: no memory. */
bool mr_batch_flight_load(struct mr_batch_flight *flight, struct mr_batch_flight_entry *entry,
                          struct mr_text text);
/* The entry's record is to be sent at due_ns, above 0; or 0: it is sent. */
void mr_batch_flight_wait(struct mr_batch_flight *flight, struct mr_batch_flight_entry *entry,
                          uint64_t due_ns);
/* Removes and frees an entry. */
void mr_batch_flight_remove(struct mr_batch_flight *flight, struct mr_batch_flight_entry *entry);
/* Calls visit for each entry; visit may remove the one that it gets. */
void mr_batch_flight_each(struct mr_batch_flight *flight,
                          void (*visit)(void *context, struct mr_batch_flight_entry *entry),
                          void *context);
/* Asserts that count, bytes and the list are right. */
void mr_batch_flight_check(struct mr_batch_flight *flight);

#endif
