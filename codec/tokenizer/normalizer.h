/* normalizer - the "normalizer" component of a tokenizer.json: changes the text before it is split.
 *
 * Supports Sequence, NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip, StripAccents, Lowercase, Nmt,
 * Precompiled, ByteLevel and BertNormalizer. With null instead of a component the text is not
 * changed. Any other component fails to load. The normalizer of a SentencePiece model is made from
 * its rules.
 *
 * Threads: immutable; each thread normalizes with its own scratch.
 * Memory:  two buffers in each scratch, as large as the longest text.
 * Errors:  MR_BAD_FILE for the component, MR_INVALID_REQUEST for a text that exceeds a limit of a
 *          pattern, MR_NOMEM. */
#ifndef MR_CODEC_TOKENIZER_NORMALIZER_H
#define MR_CODEC_TOKENIZER_NORMALIZER_H

#include "codec/buffer.h"
#include "codec/tokenizer/added_tokens.h"
#include "codec/unicode/regex.h"
#include "codec/wire/json.h"

struct mr_normalizer;

struct mr_normalizer_scratch {
    struct mr_buffer buffers[2];
    struct mr_regex_scratch *regex; /* borrowed */
};

void mr_normalizer_scratch_init(struct mr_normalizer_scratch *scratch, size_t bytes_max,
                                struct mr_regex_scratch *regex);
void mr_normalizer_scratch_drop(struct mr_normalizer_scratch *scratch);

/* Loads the component. component NULL: the file has no such member, which means the same as
 * null. */
enum mr_status mr_normalizer_create(struct mr_normalizer **out,
                                    const struct mr_json_value *component, struct mr_error *err);
/* The normalization rules of a SentencePiece model. Texts are borrowed during the call only. */
struct mr_sentence_rules {
    struct mr_text charsmap; /* precompiled_charsmap; empty: characters stay as they are */
    /* user-defined tokens, which stay as they are wherever they occur */
    const struct mr_added_token *kept;
    size_t kept_count;
    bool add_dummy_prefix;    /* a space in front of the text, ... */
    bool space_as_suffix;     /* ... or instead after it */
    bool prefix_every_part;   /* also for the parts of a text that follow an added token */
    bool remove_extra_spaces; /* no spaces at both ends, one between words */
    bool escape_spaces;       /* U+2581 for a space */
};
enum mr_status mr_normalizer_from_rules(struct mr_normalizer **out,
                                        const struct mr_sentence_rules *rules,
                                        struct mr_error *err);
void mr_normalizer_destroy(struct mr_normalizer *normalizer);

/* Normalizes text, which is valid UTF-8. at_start: text is the beginning of the whole text, not a
 * part that follows an added token. *out is text itself when no step changed it; otherwise it is
 * memory of the scratch, valid until the next call. */
enum mr_status mr_normalizer_run(const struct mr_normalizer *normalizer,
                                 struct mr_normalizer_scratch *scratch, struct mr_text text,
                                 bool at_start, struct mr_text *out, struct mr_error *err);

#endif
