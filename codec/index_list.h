/* index_list - doubly linked lists of array indexes. Several lists share one array of links, and an
 * index is in at most one of these lists. Pools use these lists to order their blocks or slots.
 *
 * Owner:  the caller, who also owns the array of links. Every call except _check is O(1).
 * Memory: none of its own. Errors: none. */
#ifndef MR_CODEC_INDEX_LIST_H
#define MR_CODEC_INDEX_LIST_H

#include <stdint.h>

#define MR_INDEX_NONE       UINT32_MAX
#define MR_INDEX_LIST_EMPTY ((struct mr_index_list){MR_INDEX_NONE, MR_INDEX_NONE, 0})

struct mr_index_link {
    /* neighbours in the list; MR_INDEX_NONE at the ends of a list and outside lists */
    uint32_t previous, next;
};

struct mr_index_list {
    uint32_t first, last, count;
};

/* Adds index, which must not be in any list over these links, at the end. */
void mr_index_list_append(struct mr_index_list *list, struct mr_index_link *links, uint32_t index);
/* Removes index, which must be in this list. */
void mr_index_list_remove(struct mr_index_list *list, struct mr_index_link *links, uint32_t index);
/* Asserts that the links of the list are consistent with each other and with its count; O(count).
 */
void mr_index_list_check(const struct mr_index_list *list, const struct mr_index_link *links);

#endif
