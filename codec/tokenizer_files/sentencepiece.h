/* sentencepiece - makes a tokenizer from a tokenizer.model, the file of SentencePiece, for models
 * that are published without a tokenizer.json.
 *
 * Ids equal those of PyPI `sentencepiece`. Control tokens and the tokens that the other files of
 * the folder add are cut out of the text first, as `transformers` does; the space that
 * SentencePiece puts in front of a text is put in front of the whole text only, or with "legacy":
 * true in tokenizer_config.json also in front of each part that follows such a token.
 *
 * Threads: any. Memory: the tokenizer copies all data that it needs.
 * Errors:  MR_BAD_FILE names the file and the cause, MR_NOMEM. */
#ifndef MR_CODEC_TOKENIZER_FILES_SENTENCEPIECE_H
#define MR_CODEC_TOKENIZER_FILES_SENTENCEPIECE_H

#include "codec/tokenizer/tokenizer.h"
#include "codec/tokenizer_files/sentencepiece_model.h"
#include "codec/tokenizer_files/tokenizer_settings.h"

/* model: the bytes of a tokenizer.model of type BPE or Unigram. The begin token is added unless
 * add_bos_token of tokenizer_config.json is false, the end token only if add_eos_token is true. */
enum mr_status mr_tokenizer_from_sentencepiece(struct mr_tokenizer **out, struct mr_text model,
                                               const struct mr_tokenizer_files *files,
                                               struct mr_error *err);

/* Fills the normalizer, the model and the decoder of parts, whose vocabulary is that of model.
 * prefix_every_part: see mr_sentence_rules. MR_BAD_FILE for a model of words or characters. */
enum mr_status mr_sentencepiece_fill(struct mr_tokenizer_parts *parts,
                                     const struct mr_sentencepiece_model *model,
                                     bool prefix_every_part, struct mr_error *err);

#endif
