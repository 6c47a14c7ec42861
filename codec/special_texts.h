/* special_texts - the texts of a model's special tokens under the names that tokenizer_config.json
 * and chat templates have for them.
 *
 * Threads: any. Memory: the texts are borrowed; the function that fills the struct names their
 * owner. Errors: none. */
#ifndef MR_CODEC_SPECIAL_TEXTS_H
#define MR_CODEC_SPECIAL_TEXTS_H

#include "codec/text.h"

enum mr_special_text {
    MR_BOS_TEXT,
    MR_EOS_TEXT,
    MR_UNK_TEXT,
    MR_SEP_TEXT,
    MR_PAD_TEXT,
    MR_CLS_TEXT,
    MR_MASK_TEXT,
    MR_SPECIAL_TEXT_COUNT
};

struct mr_special_texts {
    struct mr_text of[MR_SPECIAL_TEXT_COUNT]; /* empty: the model has no such token */
};

/* The name of a special token in tokenizer_config.json and in chat templates. */
static inline const char *mr_special_text_name(enum mr_special_text which)
{
    static const char *const names[MR_SPECIAL_TEXT_COUNT] = {
        "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
    return names[which];
}

#endif
