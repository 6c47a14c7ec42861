/* pretokenizer - the "pre_tokenizer" component of a tokenizer.json: cuts a text into the pieces
 * that the model encodes one by one.
 *
 * Understands Sequence, Split (every behaviour, inverted or not, plain text or pattern), ByteLevel,
 * Digits, Punctuation, Whitespace, WhitespaceSplit, BertPreTokenizer and Metaspace; null means "one
 * piece"; anything else fails to load. The component becomes a row of stages; a piece goes through
 * all of them before the next one starts, so no list of pieces is kept.
 * codec/tokenizer/pretokenizer_load.c reads the component.
 *
 * Threads: immutable; each thread runs it with its own scratch.
 * Memory:  one buffer for each stage that changes text, as large as its longest piece.
 * Errors:  MR_BAD_FILE for the component, MR_NOMEM, MR_INVALID_REQUEST from a pattern's limits. */
#ifndef MR_CODEC_TOKENIZER_PRETOKENIZER_H
#define MR_CODEC_TOKENIZER_PRETOKENIZER_H

#include "codec/unicode/regex.h"
#include "codec/wire/json.h"

struct mr_pretokenizer;
struct mr_pretokenizer_scratch;

/* component may be NULL. */
enum mr_status mr_pretokenizer_create(struct mr_pretokenizer **out,
                                      const struct mr_json_value *component, struct mr_error *err);
void mr_pretokenizer_destroy(struct mr_pretokenizer *pretokenizer);

/* True when the last thing the component does is to write bytes in the byte alphabet. That step is
 * left out: the pieces are the bytes themselves and the model has to take them as such. */
bool mr_pretokenizer_gives_bytes(const struct mr_pretokenizer *pretokenizer);

/* NULL when memory is out; regex is borrowed. */
struct mr_pretokenizer_scratch *
mr_pretokenizer_scratch_create(const struct mr_pretokenizer *pretokenizer, size_t bytes_max,
                               struct mr_regex_scratch *regex);
void mr_pretokenizer_scratch_destroy(struct mr_pretokenizer_scratch *scratch);

/* Called with each piece, in order, never with an empty one; a status other than MR_OK ends the
 * run. The piece is valid during the call. */
struct mr_piece_sink {
    enum mr_status (*take)(void *context, struct mr_text piece, struct mr_error *err);
    void *context;
};

/* text is valid UTF-8; at_start says that it begins where the whole text begins. */
enum mr_status mr_pretokenizer_run(const struct mr_pretokenizer *pretokenizer,
                                   struct mr_pretokenizer_scratch *scratch, struct mr_text text,
                                   bool at_start, const struct mr_piece_sink *sink,
                                   struct mr_error *err);

#endif
