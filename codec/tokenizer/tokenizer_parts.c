#include "codec/tokenizer/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

enum mr_status mr_tokenizer_resolve_merge(const struct mr_vocab *vocab, struct mr_text left,
                                          struct mr_text right, struct mr_merge *out,
                                          struct mr_error *err)
{
    char few[256];
    size_t length = left.length + right.length;
    char *merged = length <= sizeof few ? few : malloc(length);
    if (!merged) return mr_fail(err, MR_NOMEM, "no memory for a merge of %zu bytes", length);
    if (left.length > 0) memcpy(merged, left.bytes, left.length);
    if (right.length > 0) memcpy(merged + left.length, right.bytes, right.length);
    out->left = mr_vocab_find(vocab, left);
    out->right = mr_vocab_find(vocab, right);
    out->result = mr_vocab_find(vocab, (struct mr_text){merged, length});
    if (merged != few) free(merged);
    if (out->left == MR_TOKEN_NONE || out->right == MR_TOKEN_NONE || out->result == MR_TOKEN_NONE)
        return mr_fail(err, MR_BAD_FILE, "a merge of tokens outside the vocabulary");
    return MR_OK;
}

void mr_tokenizer_parts_drop(struct mr_tokenizer_parts *parts)
{
    mr_vocab_destroy(parts->vocab);
    mr_normalizer_destroy(parts->normalizer);
    mr_pretokenizer_destroy(parts->pretokenizer);
    free(parts->merges);
    free(parts->scores);
    free(parts->added);
}
