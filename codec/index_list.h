/* index_list - doubly linked lists of numbers below a bound, over one array of links: a number is
 * in one of the lists at most. Pools of blocks, of slots and of entries keep their order in them.
 *
 * Owner: of the array, the caller. Every call is O(1) but _check. Threads: as the caller's. Errors:
 * none. */
#ifndef MR_CODEC_INDEX_LIST_H
#define MR_CODEC_INDEX_LIST_H

#include <stdint.h>

#define MR_INDEX_NONE       UINT32_MAX
#define MR_INDEX_LIST_EMPTY ((struct mr_index_list){MR_INDEX_NONE, MR_INDEX_NONE, 0})

struct mr_index_link {
    uint32_t previous, next; /* NONE at the ends, and in no list */
};

struct mr_index_list {
    uint32_t first, last, count;
};

/* index must be in no list of these links. */
void mr_index_list_append(struct mr_index_list *list, struct mr_index_link *links, uint32_t index);
/* index must be in this one. */
void mr_index_list_remove(struct mr_index_list *list, struct mr_index_link *links, uint32_t index);
/* Asserts that links and count agree; O(count). */
void mr_index_list_check(const struct mr_index_list *list, const struct mr_index_link *links);

#endif
