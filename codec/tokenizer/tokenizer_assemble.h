/* tokenizer_assemble - builds a tokenizer from its parts: the tries of added tokens and the bytes
 * that each id decodes to.
 *
 * Threads: any. Memory: of the tokenizer. Errors: MR_BAD_FILE, MR_NOMEM. */
#ifndef MR_CODEC_TOKENIZER_TOKENIZER_ASSEMBLE_H
#define MR_CODEC_TOKENIZER_TOKENIZER_ASSEMBLE_H

#include "codec/tokenizer/tokenizer.h"
#include "codec/tokenizer/tokenizer_parts.h"

/* Takes vocab, normalizer and pretokenizer out of parts, also when it fails. */
enum mr_status mr_tokenizer_assemble(struct mr_tokenizer **out, struct mr_tokenizer_parts *parts,
                                     struct mr_error *err);

#endif
