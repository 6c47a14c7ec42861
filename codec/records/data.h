/* data - a value of a request that only the chat template reads: messages, tools, documents and
 * chat_template_kwargs, with all members that the producer sent, in the producer's order.
 *
 * Threads: any (pure functions). Memory: the request's arena. Errors: none. */
#ifndef MR_CODEC_RECORDS_DATA_H
#define MR_CODEC_RECORDS_DATA_H

#include "codec/text.h"

#include <stddef.h>
#include <stdint.h>

enum mr_data_kind {
    MR_DATA_NULL,
    MR_DATA_BOOL,
    MR_DATA_INT,
    MR_DATA_FLOAT, /* finite */
    MR_DATA_BIG,   /* a number outside of both: its digits are in `text` */
    MR_DATA_TEXT,
    MR_DATA_LIST,
    MR_DATA_MAP
};

struct mr_data_member;

struct mr_data {
    enum mr_data_kind kind;
    union {
        int64_t integer; /* value of kind INT; of kind BOOL 0 or 1 */
        double number;
        struct mr_text text;
        struct {
            const struct mr_data *items; /* [count] of a LIST */
            size_t count;
        } list;
        struct {
            const struct mr_data_member *members; /* [count] of a MAP; no name comes twice */
            size_t count;
        } map;
    };
};

struct mr_data_member {
    struct mr_text name;
    struct mr_data value;
};

/* The member with this name; NULL if map is not a MAP or lacks it. */
const struct mr_data *mr_data_get(const struct mr_data *map, const char *name);
/* The text of a part of a message's content: the part itself, or its member `text`, `refusal` or
 * `thinking`; NULL if none of them is a text. */
const struct mr_data *mr_data_part_text(const struct mr_data *part);

#endif
