#include "codec/tokenizer/unigram.h"

#include "codec/check.h"
#include "codec/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct token {
    struct mr_text text; /* points into the vocabulary */
    uint32_t id;
};

struct mr_unigram {
    const struct mr_vocab *vocab;
    struct token *tokens; /* [token_count] tokens with a score, sorted by text */
    uint32_t token_count;
    uint32_t first[257];       /* first[b]: index of the first token whose text starts with b */
    double *scores;            /* [size of the vocabulary] */
    uint32_t byte_tokens[256]; /* ids of the tokens <0xHH> */
    struct mr_unigram_options options;
};

/* The best path from the start of the piece to a position in it. */
struct node {
    double score;
    uint32_t start; /* where its last token starts; NOWHERE: no path ends here */
    uint32_t id;    /* its last token */
};

#define NOWHERE UINT32_MAX

struct mr_unigram_scratch {
    struct node *nodes;
    size_t node_max;
};

/* ---- creation ---- */

static int by_text(const void *a, const void *b)
{
    const struct token *left = a, *right = b;
    size_t shorter =
        left->text.length < right->text.length ? left->text.length : right->text.length;
    int order = memcmp(left->text.bytes, right->text.bytes, shorter);
    if (order != 0) return order;
    if (left->text.length != right->text.length)
        return left->text.length < right->text.length ? -1 : 1;
    return left->id < right->id ? -1 : left->id > right->id;
}

static enum mr_status collect(struct mr_unigram *unigram, const struct mr_vocab *vocab,
                              const double *scores, struct mr_error *err)
{
    uint32_t size = mr_vocab_size(vocab);
    unigram->tokens = calloc((size_t)size + 1, sizeof *unigram->tokens);
    unigram->scores = calloc((size_t)size + 1, sizeof *unigram->scores);
    if (!unigram->tokens || !unigram->scores)
        return mr_fail(err, MR_NOMEM, "no memory for a vocabulary of %u tokens", size);
    for (uint32_t id = 0; id < size; id++) {
        struct mr_text text = mr_vocab_text(vocab, id);
        unigram->scores[id] = scores[id];
        /* if two tokens have the same text, the vocabulary finds the later one */
        if (text.length == 0 || isnan(scores[id]) || mr_vocab_find(vocab, text) != id) continue;
        if (text.length > MR_UNIGRAM_TOKEN_BYTES_MAX)
            return mr_fail(err, MR_BAD_FILE, "token %u has %zu bytes, the limit is %zu", id,
                           text.length, MR_UNIGRAM_TOKEN_BYTES_MAX);
        unigram->tokens[unigram->token_count++] = (struct token){text, id};
    }
    qsort(unigram->tokens, unigram->token_count, sizeof *unigram->tokens, by_text);
    uint32_t at = 0;
    for (unsigned byte = 0; byte <= 256; byte++) {
        while (at < unigram->token_count && (unsigned char)unigram->tokens[at].text.bytes[0] < byte)
            at++;
        unigram->first[byte] = at;
    }
    return MR_OK;
}

enum mr_status mr_unigram_create(struct mr_unigram **out, const struct mr_vocab *vocab,
                                 const double *scores, const struct mr_unigram_options *options,
                                 struct mr_error *err)
{
    *out = NULL;
    if (options->unk_id >= mr_vocab_size(vocab))
        return mr_fail(err, MR_BAD_FILE, "the unknown token is not in the vocabulary");
    struct mr_unigram *unigram = calloc(1, sizeof *unigram);
    if (!unigram) return mr_fail(err, MR_NOMEM, "no memory for a tokenizer");
    unigram->vocab = vocab;
    unigram->options = *options;
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", byte);
        unigram->byte_tokens[byte] = mr_vocab_find(vocab, (struct mr_text){text, 6});
    }
    enum mr_status status = collect(unigram, vocab, scores, err);
    if (status != MR_OK) {
        mr_unigram_destroy(unigram);
        return status;
    }
    *out = unigram;
    return MR_OK;
}

void mr_unigram_destroy(struct mr_unigram *unigram)
{
    if (!unigram) return;
    free(unigram->tokens);
    free(unigram->scores);
    free(unigram);
}

struct mr_unigram_scratch *mr_unigram_scratch_create(void)
{
    return calloc(1, sizeof(struct mr_unigram_scratch));
}

void mr_unigram_scratch_destroy(struct mr_unigram_scratch *scratch)
{
    if (!scratch) return;
    free(scratch->nodes);
    free(scratch);
}

/* ---- encoding ---- */

/* Narrows the tokens [*low, *high), whose texts agree in their first `depth` bytes, to those whose
 * next byte is `byte`. */
static void narrow(const struct mr_unigram *unigram, size_t depth, unsigned char byte,
                   uint32_t *low, uint32_t *high)
{
    uint32_t ends[2];
    for (unsigned i = 0; i < 2; i++) {
        uint32_t from = *low, to = *high;
        while (from < to) {
            uint32_t middle = from + (to - from) / 2;
            struct mr_text text = unigram->tokens[middle].text;
            bool before =
                text.length <= depth || (unsigned char)text.bytes[depth] < (unsigned)byte + i;
            if (before)
                from = middle + 1;
            else
                to = middle;
        }
        ends[i] = from;
    }
    *low = ends[0];
    *high = ends[1];
}

/* Makes the path over the token with this id, which covers [start, end), the best one to `end` if
 * it is better than the one known. */
static void offer(const struct mr_unigram *unigram, struct node *nodes, uint32_t start,
                  uint32_t end, uint32_t id, double score)
{
    double sum = nodes[start].score + score;
    if (unigram->options.float_sums) sum = (double)(float)sum;
    if (nodes[end].start != NOWHERE && !(sum > nodes[end].score)) return;
    nodes[end] = (struct node){sum, start, id};
}

/* Offers all tokens that start at `start`; true when one of them is exactly the character there. */
static bool offer_tokens(const struct mr_unigram *unigram, struct node *nodes, struct mr_text piece,
                         uint32_t start, size_t character)
{
    unsigned char byte = (unsigned char)piece.bytes[start];
    uint32_t low = unigram->first[byte], high = unigram->first[byte + 1];
    bool whole = false;
    for (size_t depth = 1; low < high; depth++) {
        const struct token *token = &unigram->tokens[low];
        if (token->text.length == depth) {
            offer(unigram, nodes, start, start + (uint32_t)depth, token->id,
                  unigram->scores[token->id]);
            whole = whole || depth == character;
        }
        if (start + depth >= piece.length) break;
        narrow(unigram, depth, (unsigned char)piece.bytes[start + depth], &low, &high);
    }
    return whole;
}

static void find_paths(const struct mr_unigram *unigram, struct node *nodes, struct mr_text piece)
{
    for (size_t i = 0; i <= piece.length; i++)
        nodes[i] = (struct node){0.0, NOWHERE, MR_TOKEN_NONE};
    for (uint32_t at = 0; at < piece.length;) {
        size_t character = mr_utf8_next(piece, at).length;
        if (!offer_tokens(unigram, nodes, piece, at, character))
            offer(unigram, nodes, at, at + (uint32_t)character, unigram->options.unk_id,
                  unigram->options.unk_score);
        at += (uint32_t)character;
    }
}

/* Turns the best path around: sets nodes[start].id to the token that starts there and
 * nodes[start].start to where the token ends. */
static void reverse_path(struct node *nodes, uint32_t length)
{
    uint32_t end = length, start = nodes[length].start, id = nodes[length].id;
    while (end > 0) {
        MR_ASSERT(start < end);
        uint32_t before = nodes[start].start, before_id = nodes[start].id;
        nodes[start].start = end;
        nodes[start].id = id;
        end = start;
        start = before;
        id = before_id;
    }
}

/* Adds a run of unknown tokens to out. As in the reference implementation, a run that is a token
 * (the text of the unknown token itself) is that token. */
static void add_unknown(const struct mr_unigram *unigram, struct mr_text text,
                        struct mr_id_list *out)
{
    uint32_t id = mr_vocab_find(unigram->vocab, text);
    bool falls_back =
        unigram->options.byte_fallback && (id == MR_TOKEN_NONE || isnan(unigram->scores[id]));
    for (size_t i = 0; i < text.length && falls_back; i++)
        falls_back = unigram->byte_tokens[(unsigned char)text.bytes[i]] != MR_TOKEN_NONE;
    for (size_t i = 0; i < text.length && falls_back; i++)
        mr_id_list_add(out, unigram->byte_tokens[(unsigned char)text.bytes[i]]);
    if (!falls_back) mr_id_list_add(out, unigram->options.unk_id);
}

enum mr_status mr_unigram_encode(const struct mr_unigram *unigram,
                                 struct mr_unigram_scratch *scratch, struct mr_text piece,
                                 struct mr_id_list *out, struct mr_error *err)
{
    MR_ASSERT(piece.length > 0 && piece.length < NOWHERE);
    if (piece.length + 1 > scratch->node_max) {
        struct node *grown = realloc(scratch->nodes, (piece.length + 1) * sizeof *grown);
        if (!grown) return mr_fail(err, MR_NOMEM, "no memory to encode %zu bytes", piece.length);
        scratch->nodes = grown;
        scratch->node_max = piece.length + 1;
    }
    struct node *nodes = scratch->nodes;
    find_paths(unigram, nodes, piece);
    reverse_path(nodes, (uint32_t)piece.length);
    for (uint32_t at = 0; at < piece.length;) {
        uint32_t end = nodes[at].start;
        if (nodes[at].id != unigram->options.unk_id) {
            mr_id_list_add(out, nodes[at].id);
        } else {
            while (end < piece.length && nodes[end].id == unigram->options.unk_id)
                end = nodes[end].start;
            add_unknown(unigram, mr_text_part(piece, at, end), out);
        }
        at = end;
    }
    return MR_OK;
}
