/* token_ids - a list of token ids in an array of the caller.
 *
 * Threads: any. Memory: the caller's array. Errors: none; ids that do not fit are counted. */
#ifndef MR_CODEC_TOKENIZER_TOKEN_IDS_H
#define MR_CODEC_TOKENIZER_TOKEN_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_TOKEN_NONE UINT32_MAX /* value for "no token"; no token has this id */

struct mr_id_list {
    uint32_t *ids;     /* [max] ids; the first `count` are set */
    size_t count, max; /* count may exceed max: the ids beyond max were counted but not stored */
    size_t enough;     /* encoding a text ends soon after count is above this; 0: at its end */
};

static inline void mr_id_list_add(struct mr_id_list *list, uint32_t id)
{
    if (list->count < list->max) list->ids[list->count] = id;
    list->count++;
}

static inline bool mr_id_list_is_enough(const struct mr_id_list *list)
{
    return list->enough > 0 && list->count > list->enough;
}

#endif
