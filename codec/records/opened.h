/* opened - which reasoning the text of a prompt opens and does not close, so that the answer begins
 * inside it: after a template or a producer has written <think>, or in the harmony format the
 * header of the channel `analysis`. Also the words that begin and end reasoning.
 *
 * Threads: any (pure functions). Memory: none. Errors: none. */
#ifndef MR_CODEC_RECORDS_OPENED_H
#define MR_CODEC_RECORDS_OPENED_H

#include "codec/text.h"
#include "codec/tools/tool_format.h"

#define MR_REASONING_BEGIN "<think>"

enum mr_opened {
    MR_OPENED_NOTHING,
    MR_OPENED_HEADER, /* harmony: the text ends after <|channel|>, before the channel's name */
    MR_OPENED_TAG,    /* only white space follows the opening tag, or the channel's name */
    MR_OPENED_TEXT    /* reasoning follows the tag; harmony: the text ends in the body */
};

/* Reads the text of the prompt's last turn, the one that the answer continues. */
enum mr_opened mr_opened_find(enum mr_tool_format format, struct mr_text turn);
/* The text that the prompt has opened, or as much of it as opens the same; empty for NOTHING. */
struct mr_text mr_opened_text(enum mr_tool_format format, enum mr_opened opened);
/* The words that begin (the first) and end (the others) reasoning, *count of them. */
const struct mr_text *mr_opened_words(enum mr_tool_format format, size_t *count);
/* The text that ends reasoning, up to where the answer goes on. */
struct mr_text mr_opened_end(enum mr_tool_format format);
/* True for the text of a control token that may stand inside a turn, because it is a tag of
 * reasoning or belongs to a header of harmony. */
bool mr_opened_is_tag(enum mr_tool_format format, struct mr_text token);

#endif
