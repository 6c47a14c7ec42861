/* pretokenizer - the "pre_tokenizer" component of a tokenizer.json: cuts a text into the pieces
 * that the model encodes one by one.
 *
 * Supports Sequence, Split (every behaviour, inverted or not, plain text or pattern), ByteLevel,
 * Digits, Punctuation, Whitespace, WhitespaceSplit, BertPreTokenizer and Metaspace. With null
 * instead of a component the text is one piece. Any other component fails to load.
 * codec/tokenizer/pretokenizer_load.c turns the component into a list of stages. Each stage passes
 * a piece on to the next stage as soon as the piece is complete, so no list of pieces is kept.
 *
 * Threads: immutable; each thread runs it with its own scratch.
 * Memory:  one buffer for each stage that changes text, as large as its longest piece.
 * Errors:  MR_BAD_FILE for the component, MR_INVALID_REQUEST for a text that exceeds a limit of a
 *          pattern, MR_NOMEM. */
#ifndef MR_CODEC_TOKENIZER_PRETOKENIZER_H
#define MR_CODEC_TOKENIZER_PRETOKENIZER_H

#include "codec/unicode/regex.h"
#include "codec/wire/json.h"

struct mr_pretokenizer;
struct mr_pretokenizer_scratch;

/* Loads the component. component NULL: the file has no such member, which means the same as
 * null. */
enum mr_status mr_pretokenizer_create(struct mr_pretokenizer **out,
                                      const struct mr_json_value *component, struct mr_error *err);
/* Makes the pre-tokenizer of a tiktoken file: the pieces are the matches of the pattern, as bytes;
 * text that no match covers is dropped. */
enum mr_status mr_pretokenizer_from_pattern(struct mr_pretokenizer **out, struct mr_text pattern,
                                            struct mr_error *err);
void mr_pretokenizer_destroy(struct mr_pretokenizer *pretokenizer);

/* True when the component's last stage would write the text in the byte alphabet (byte_alphabet.h).
 * That stage is left out: pieces are plain bytes, and mr_bpe_options.bytes must be set. */
bool mr_pretokenizer_gives_bytes(const struct mr_pretokenizer *pretokenizer);

/* NULL when memory is out; regex is borrowed. */
struct mr_pretokenizer_scratch *
mr_pretokenizer_scratch_create(const struct mr_pretokenizer *pretokenizer, size_t bytes_max,
                               struct mr_regex_scratch *regex);
void mr_pretokenizer_scratch_destroy(struct mr_pretokenizer_scratch *scratch);

/* Receives the pieces: `take` is called with each piece in the order of the text. A piece is never
 * empty and is valid during the call. A status other than MR_OK ends the run. */
struct mr_piece_sink {
    enum mr_status (*take)(void *context, struct mr_text piece, struct mr_error *err);
    void *context;
};

/* Cuts text, which is valid UTF-8, into pieces. at_start: text is the beginning of the whole
 * text. */
enum mr_status mr_pretokenizer_run(const struct mr_pretokenizer *pretokenizer,
                                   struct mr_pretokenizer_scratch *scratch, struct mr_text text,
                                   bool at_start, const struct mr_piece_sink *sink,
                                   struct mr_error *err);

#endif
