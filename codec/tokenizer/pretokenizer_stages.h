/* pretokenizer_stages - the stages of a pre-tokenizer. pretokenizer_load.c fills them from the
 * component of the file, pretokenizer.c runs them; no other file includes this. */
#ifndef MR_CODEC_TOKENIZER_PRETOKENIZER_STAGES_H
#define MR_CODEC_TOKENIZER_PRETOKENIZER_STAGES_H

#include "codec/unicode/regex.h"

#define MR_STAGES_MAX 16

enum mr_stage_kind {
    MR_STAGE_SPLIT_REGEX,
    MR_STAGE_SPLIT_TEXT,
    MR_STAGE_SPLIT_NUMERIC,
    MR_STAGE_SPLIT_SPACE,
    MR_STAGE_SPLIT_PUNCTUATION,
    MR_STAGE_PREFIX_SPACE, /* adds a space in front of the text unless there is one */
    MR_STAGE_BYTES,        /* writes the text in the byte alphabet */
    MR_STAGE_METASPACE     /* replaces spaces by `text`, and may add `text` in front */
};

enum mr_split_behavior {
    MR_SPLIT_ISOLATED,
    MR_SPLIT_REMOVED,
    MR_SPLIT_CONTIGUOUS,
    MR_SPLIT_MERGED_WITH_PREVIOUS,
    MR_SPLIT_MERGED_WITH_NEXT
};

enum mr_prepend_scheme { MR_PREPEND_ALWAYS, MR_PREPEND_FIRST, MR_PREPEND_NEVER };

struct mr_stage {
    enum mr_stage_kind kind;
    enum mr_split_behavior behavior;
    bool inverted;
    struct mr_regex *regex; /* pattern of a SPLIT_REGEX stage, owned */
    char text[64];          /* text to split at (SPLIT_TEXT) or in place of a space (METASPACE) */
    size_t text_length;
    enum mr_prepend_scheme
        prepend; /* the condition on which a METASPACE stage adds its text in front */
};

struct mr_pretokenizer {
    struct mr_stage stages[MR_STAGES_MAX];
    size_t stage_count;
    bool gives_bytes;
};

#endif
