#include "codec/tokenizer/bpe.h"

#include "codec/buffer.h"
#include "codec/check.h"
#include "codec/tokenizer/byte_alphabet.h"
#include "codec/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Up to this many symbols in a piece of text, scanning all pairs for each merge is faster than the
 * queue. */
#define SCAN_MAX 64

/* The cache of encoded pieces of text is direct mapped: one slot for each hash value. Pieces above
 * CACHE_PIECE_BYTES are rare. */
#define CACHE_SLOTS       8192u
#define CACHE_PIECE_BYTES 30
#define CACHE_IDS         8

/* Number of bits in the joint table (see joint_of): ten times as many as the character pairs of the
 * largest vocabulary. */
#define JOINT_BITS ((uint32_t)1 << 21)

#define NO_RANK UINT32_MAX
#define NOWHERE UINT32_MAX

struct pair {
    uint64_t key; /* token ids: left << 32 | right */
    uint32_t rank, result;
};

struct mr_bpe {
    const struct mr_vocab *vocab;
    /* bytes of each token; only with options.bytes and ignore_merges, else NULL */
    struct mr_vocab *words;
    struct pair *pairs; /* [mask + 1] hash table of the merges; rank NO_RANK: free slot */
    uint32_t mask;
    uint32_t byte_tokens[256]; /* ids of the 256 tokens <0xHH> */
    uint32_t single[256];      /* id of each byte (options.bytes) or of each ASCII character */
    /* [JOINT_BITS / 64] bit set, see joint_of(); NULL: text is not cut at joints */
    uint64_t *joints;
    struct mr_bpe_options options;
};

struct symbol {
    uint32_t id;       /* token id; MR_TOKEN_NONE: merged into the symbol on the left */
    uint32_t previous; /* index of the symbol on the left, NOWHERE at the start */
    uint32_t next;     /* index of the symbol on the right, NOWHERE at the end */
};

struct cached {
    uint8_t length, count;
    char piece[CACHE_PIECE_BYTES];
    uint32_t ids[CACHE_IDS];
};

struct mr_bpe_scratch {
    struct symbol *symbols;
    size_t symbol_max;
    /* heap of pairs to merge, (rank << 32 | index of the left symbol), smallest first */
    uint64_t *queue;
    size_t queue_count, queue_max;
    uint32_t short_ids[SCAN_MAX];
    uint32_t short_ranks[SCAN_MAX];
    struct cached cache[CACHE_SLOTS];
    const struct mr_bpe *bpe; /* the bpe that the cached ids belong to */
};

/* ---- creation ---- */

static uint32_t slot_of(const struct mr_bpe *bpe, uint64_t key)
{
    uint64_t hash = key * 0x9e3779b97f4a7c15u;
    uint32_t at = (uint32_t)(hash >> 32) & bpe->mask;
    while (bpe->pairs[at].rank != NO_RANK && bpe->pairs[at].key != key)
        at = (at + 1) & bpe->mask;
    return at;
}

static const struct pair *find_pair(const struct mr_bpe *bpe, uint32_t left, uint32_t right)
{
    return &bpe->pairs[slot_of(bpe, (uint64_t)left << 32 | right)];
}

static enum mr_status fill_pairs(struct mr_bpe *bpe, const struct mr_merge *merges, size_t count,
                                 struct mr_error *err)
{
    if (count > MR_VOCAB_TOKENS_MAX) return mr_fail(err, MR_BAD_FILE, "%zu merges", count);
    uint32_t slots = 16;
    while (slots < count * 2)
        slots *= 2;
    bpe->mask = slots - 1;
    bpe->pairs = malloc(slots * sizeof *bpe->pairs);
    if (!bpe->pairs) return mr_fail(err, MR_NOMEM, "no memory for %zu merges", count);
    memset(bpe->pairs, 0xff, slots * sizeof *bpe->pairs);
    for (size_t i = 0; i < count; i++) {
        const struct mr_merge *merge = &merges[i];
        uint64_t key = (uint64_t)merge->left << 32 | merge->right;
        bpe->pairs[slot_of(bpe, key)] = (struct pair){key, merge->rank, merge->result};
    }
    return MR_OK;
}

static void fill_singles(struct mr_bpe *bpe)
{
    for (unsigned c = 0; c < 256; c++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", c);
        bpe->byte_tokens[c] = mr_vocab_find(bpe->vocab, (struct mr_text){text, 6});
        size_t length = 1;
        text[0] = (char)c;
        if (bpe->options.bytes) length = mr_byte_alphabet_put(text, (unsigned char)c);
        bool whole = bpe->options.bytes || c < 0x80;
        bpe->single[c] =
            whole ? mr_vocab_find(bpe->vocab, (struct mr_text){text, length}) : MR_TOKEN_NONE;
    }
}

/* Builds the vocabulary `words` with the bytes of each token, in which whole pieces of text are
 * looked up. A token with a character outside the byte alphabet can never equal a piece. */
static enum mr_status fill_words(struct mr_bpe *bpe, struct mr_error *err)
{
    uint32_t size = mr_vocab_size(bpe->vocab);
    enum mr_status status = MR_NOMEM;
    struct mr_buffer bytes;
    mr_buffer_init(&bytes, UINT32_MAX);
    struct mr_text *texts = calloc((size_t)size + 1, sizeof *texts);
    size_t total = 0;
    for (uint32_t id = 0; id < size; id++)
        total += mr_vocab_text(bpe->vocab, id).length;
    /* Reserve all memory at once, because texts[] points into the buffer, which must not move. */
    bool fits = texts && mr_buffer_reserve(&bytes, total + 1);
    for (uint32_t id = 0; id < size && fits; id++) {
        struct mr_text text = mr_vocab_text(bpe->vocab, id);
        size_t start = bytes.length;
        bool inside = false;
        if (text.bytes) fits = mr_byte_alphabet_decode(text, &bytes, &inside);
        if (inside) texts[id] = mr_text_part(mr_buffer_text(&bytes), start, bytes.length);
    }
    if (fits) status = mr_vocab_create(&bpe->words, texts, size, err);
    free(texts);
    mr_buffer_drop(&bytes);
    return status == MR_OK ? MR_OK : mr_fail(err, status, "no memory for a vocabulary as bytes");
}

/* ---- joints ---- */

/* The bit in the joint table for a pair of characters. A joint is a pair at which a merge joins two
 * tokens: the last character of the left token and the first of the right one. No token spans two
 * adjacent characters that are not a joint, so a piece of text can be cut between them and its
 * parts encoded one by one. Vocabularies without pre-tokenizer (SentencePiece) have very long
 * pieces and would be slow without this. The table has one bit for each hash of a pair; a hash
 * collision prevents a cut and changes no result. */
static uint32_t joint_of(uint32_t left, uint32_t right)
{
    uint64_t key = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(key >> 40) & (JOINT_BITS - 1);
}

static uint32_t first_character(struct mr_text text)
{
    return mr_utf8_next(text, 0).code_point;
}

static uint32_t last_character(struct mr_text text)
{
    return mr_utf8_next(text, mr_utf8_previous(text, text.length)).code_point;
}

/* True when unknown characters are dropped: the neighbours of such a character become adjacent and
 * may merge. */
static bool drops_unknown(const struct mr_bpe *bpe)
{
    bool falls_back = bpe->options.byte_fallback;
    for (unsigned c = 0; c < 256; c++)
        falls_back = falls_back && bpe->byte_tokens[c] != MR_TOKEN_NONE;
    return bpe->options.unk_id == MR_TOKEN_NONE && !falls_back;
}

/* True for the unknown token and the <0xHH> tokens, which stand for characters that their texts do
 * not show. If a merge contains such a token, text is never cut at joints. */
static bool is_stand_in(const struct mr_bpe *bpe, uint32_t id)
{
    if (id == bpe->options.unk_id) return true;
    struct mr_text text = mr_vocab_text(bpe->vocab, id);
    return text.length == 6 && memcmp(text.bytes, "<0x", 3) == 0;
}

static enum mr_status fill_joints(struct mr_bpe *bpe, const struct mr_merge *merges, size_t count,
                                  struct mr_error *err)
{
    if (bpe->options.bytes || bpe->options.ignore_merges || drops_unknown(bpe)) return MR_OK;
    bpe->joints = calloc(JOINT_BITS / 64, sizeof *bpe->joints);
    if (!bpe->joints) return mr_fail(err, MR_NOMEM, "no memory for a tokenizer");
    for (size_t i = 0; i < count; i++) {
        struct mr_text left = mr_vocab_text(bpe->vocab, merges[i].left);
        struct mr_text right = mr_vocab_text(bpe->vocab, merges[i].right);
        bool stand_in = is_stand_in(bpe, merges[i].left) || is_stand_in(bpe, merges[i].right);
        if (stand_in || left.length == 0 || right.length == 0) {
            free(bpe->joints);
            bpe->joints = NULL;
            return MR_OK;
        }
        uint32_t joint = joint_of(last_character(left), first_character(right));
        bpe->joints[joint / 64] |= (uint64_t)1 << joint % 64;
    }
    return MR_OK;
}

enum mr_status mr_bpe_create(struct mr_bpe **out, const struct mr_vocab *vocab,
                             const struct mr_merge *merges, size_t merge_count,
                             const struct mr_bpe_options *options, struct mr_error *err)
{
    *out = NULL;
    struct mr_bpe *bpe = calloc(1, sizeof *bpe);
    if (!bpe) return mr_fail(err, MR_NOMEM, "no memory for a tokenizer");
    bpe->vocab = vocab;
    bpe->options = *options;
    fill_singles(bpe);
    enum mr_status status = fill_pairs(bpe, merges, merge_count, err);
    if (status == MR_OK && options->bytes && options->ignore_merges) status = fill_words(bpe, err);
    if (status == MR_OK) status = fill_joints(bpe, merges, merge_count, err);
    if (status != MR_OK) {
        mr_bpe_destroy(bpe);
        return status;
    }
    *out = bpe;
    return MR_OK;
}

void mr_bpe_destroy(struct mr_bpe *bpe)
{
    if (!bpe) return;
    mr_vocab_destroy(bpe->words);
    free(bpe->joints);
    free(bpe->pairs);
    free(bpe);
}

struct mr_bpe_scratch *mr_bpe_scratch_create(const struct mr_bpe *bpe)
{
    struct mr_bpe_scratch *scratch = calloc(1, sizeof *scratch);
    if (scratch) scratch->bpe = bpe;
    return scratch;
}

void mr_bpe_scratch_destroy(struct mr_bpe_scratch *scratch)
{
    if (!scratch) return;
    free(scratch->symbols);
    free(scratch->queue);
    free(scratch);
}

/* ---- splitting a piece into symbols ---- */

struct splitter {
    const struct mr_bpe *bpe;
    struct mr_id_list ids;
    /* an unknown token is pending, because it may fuse with the next one */
    bool unknown_pending;
};

static void add_known(struct splitter *s, uint32_t id)
{
    if (s->unknown_pending) mr_id_list_add(&s->ids, s->bpe->options.unk_id);
    s->unknown_pending = false;
    mr_id_list_add(&s->ids, id);
}

/* Adds a character for which the vocabulary has no token. As in the reference implementation, its
 * byte tokens come before an unknown token that is pending. */
static void add_unknown(struct splitter *s, struct mr_text text)
{
    const struct mr_bpe *bpe = s->bpe;
    bool falls_back = bpe->options.byte_fallback;
    for (size_t i = 0; i < text.length && falls_back; i++)
        falls_back = bpe->byte_tokens[(unsigned char)text.bytes[i]] != MR_TOKEN_NONE;
    for (size_t i = 0; i < text.length && falls_back; i++)
        mr_id_list_add(&s->ids, bpe->byte_tokens[(unsigned char)text.bytes[i]]);
    if (falls_back || bpe->options.unk_id == MR_TOKEN_NONE) return;
    if (s->unknown_pending && !bpe->options.fuse_unk) mr_id_list_add(&s->ids, bpe->options.unk_id);
    s->unknown_pending = true;
}

static size_t split_next(struct splitter *s, struct mr_text piece, size_t at)
{
    unsigned char c = (unsigned char)piece.bytes[at];
    uint32_t id = s->bpe->single[c];
    char alphabet[4];
    struct mr_text text = {piece.bytes + at, 1};
    size_t taken = 1;
    if (s->bpe->options.bytes) {
        if (id == MR_TOKEN_NONE)
            text = (struct mr_text){alphabet, mr_byte_alphabet_put(alphabet, c)};
    } else if (c >= 0x80) {
        taken = mr_utf8_next(piece, at).length;
        text.length = taken;
        id = mr_vocab_find(s->bpe->vocab, text);
    }
    if (id == MR_TOKEN_NONE)
        add_unknown(s, text);
    else
        add_known(s, id);
    return taken;
}

static size_t split_piece(const struct mr_bpe *bpe, struct mr_text piece, uint32_t *ids, size_t max)
{
    struct splitter s = {.bpe = bpe, .ids = {.ids = ids, .max = max}};
    for (size_t at = 0; at < piece.length;)
        at += split_next(&s, piece, at);
    if (s.unknown_pending) mr_id_list_add(&s.ids, bpe->options.unk_id);
    MR_ASSERT(s.ids.count <= max);
    return s.ids.count;
}

/* ---- short pieces ---- */

static uint32_t rank_of(const struct mr_bpe *bpe, uint32_t left, uint32_t right)
{
    return find_pair(bpe, left, right)->rank;
}

static size_t merge_short(const struct mr_bpe *bpe, uint32_t *ids, uint32_t *ranks, size_t count)
{
    for (size_t i = 0; i + 1 < count; i++)
        ranks[i] = rank_of(bpe, ids[i], ids[i + 1]);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++)
            if (ranks[i] < ranks[best]) best = i;
        if (ranks[best] == NO_RANK) break;
        ids[best] = find_pair(bpe, ids[best], ids[best + 1])->result;
        size_t after = count - best - 2;
        memmove(ids + best + 1, ids + best + 2, after * sizeof *ids);
        if (after > 0) memmove(ranks + best + 1, ranks + best + 2, (after - 1) * sizeof *ranks);
        count--;
        if (best > 0) ranks[best - 1] = rank_of(bpe, ids[best - 1], ids[best]);
        if (best + 1 < count) ranks[best] = rank_of(bpe, ids[best], ids[best + 1]);
    }
    return count;
}

/* ---- long pieces ---- */

static bool make_room(struct mr_bpe_scratch *scratch, size_t symbols)
{
    if (symbols <= scratch->symbol_max) return true;
    /* entries in the queue: one pair for each symbol, and two for each merge */
    size_t queue = symbols * 3;
    struct symbol *grown = realloc(scratch->symbols, symbols * sizeof *grown);
    if (!grown) return false;
    scratch->symbols = grown;
    uint64_t *places = realloc(scratch->queue, queue * sizeof *places);
    if (!places) return false;
    scratch->queue = places;
    scratch->queue_max = queue;
    scratch->symbol_max = symbols;
    return true;
}

static void queue_push(struct mr_bpe_scratch *scratch, uint64_t entry)
{
    MR_ASSERT(scratch->queue_count < scratch->queue_max);
    uint64_t *queue = scratch->queue;
    size_t at = scratch->queue_count++;
    while (at > 0 && queue[(at - 1) / 4] > entry) {
        queue[at] = queue[(at - 1) / 4];
        at = (at - 1) / 4;
    }
    queue[at] = entry;
}

static uint64_t queue_pop(struct mr_bpe_scratch *scratch)
{
    uint64_t *queue = scratch->queue;
    uint64_t top = queue[0];
    size_t count = --scratch->queue_count;
    uint64_t last = queue[count];
    size_t at = 0;
    for (size_t child = 1; child < count; child = at * 4 + 1) {
        size_t end = child + 4 < count ? child + 4 : count;
        size_t least = child;
        for (size_t i = child + 1; i < end; i++)
            if (queue[i] < queue[least]) least = i;
        if (queue[least] >= last) break;
        queue[at] = queue[least];
        at = least;
    }
    queue[at] = last;
    return top;
}

static void queue_pair(const struct mr_bpe *bpe, struct mr_bpe_scratch *scratch, uint32_t left)
{
    const struct symbol *symbols = scratch->symbols;
    if (left == NOWHERE || symbols[left].next == NOWHERE) return;
    uint32_t rank = rank_of(bpe, symbols[left].id, symbols[symbols[left].next].id);
    if (rank != NO_RANK) queue_push(scratch, (uint64_t)rank << 32 | left);
}

/* Merges the pair of an entry of the queue, unless the pair at that place has changed since the
 * entry was made. A pair never returns to the same place, so it is enough to compare the ranks. */
static void merge_at(const struct mr_bpe *bpe, struct mr_bpe_scratch *scratch, uint64_t entry)
{
    struct symbol *symbols = scratch->symbols;
    uint32_t at = (uint32_t)entry;
    struct symbol *left = &symbols[at];
    if (left->id == MR_TOKEN_NONE || left->next == NOWHERE) return;
    struct symbol *right = &symbols[left->next];
    const struct pair *pair = find_pair(bpe, left->id, right->id);
    if (pair->rank != (uint32_t)(entry >> 32)) return;
    left->id = pair->result;
    left->next = right->next;
    right->id = MR_TOKEN_NONE;
    if (left->next != NOWHERE) symbols[left->next].previous = at;
    queue_pair(bpe, scratch, left->previous);
    queue_pair(bpe, scratch, at);
}

static void link_symbols(struct symbol *symbols, const uint32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        symbols[i] =
            (struct symbol){ids[i], i > 0 ? i - 1 : NOWHERE, i + 1 < count ? i + 1 : NOWHERE};
}

static enum mr_status encode_long(const struct mr_bpe *bpe, struct mr_bpe_scratch *scratch,
                                  struct mr_text piece, struct mr_id_list *out,
                                  struct mr_error *err)
{
    /* A piece has at most one symbol for each byte, with options.bytes at most two. */
    size_t symbol_max = piece.length * (bpe->options.bytes ? 2 : 1) + 1;
    if (symbol_max >= UINT32_MAX) return mr_fail(err, MR_PROMPT_TOO_LONG, "text is too long");
    if (!make_room(scratch, symbol_max))
        return mr_fail(err, MR_NOMEM, "no memory to encode %zu bytes", piece.length);
    /* use the queue's memory, which is not in use yet */
    uint32_t *ids = (uint32_t *)(void *)scratch->queue;
    uint32_t count = (uint32_t)split_piece(bpe, piece, ids, symbol_max);
    link_symbols(scratch->symbols, ids, count);
    scratch->queue_count = 0;
    for (uint32_t i = 0; i < count; i++)
        queue_pair(bpe, scratch, i);
    while (scratch->queue_count > 0)
        merge_at(bpe, scratch, queue_pop(scratch));
    for (uint32_t i = 0; i < count; i++)
        if (scratch->symbols[i].id != MR_TOKEN_NONE) mr_id_list_add(out, scratch->symbols[i].id);
    return MR_OK;
}

/* ---- encoding ---- */

static struct cached *cache_slot(struct mr_bpe_scratch *scratch, struct mr_text piece)
{
    return &scratch->cache[(uint32_t)mr_text_hash(piece) & (CACHE_SLOTS - 1)];
}

static bool holds(const struct cached *cached, struct mr_text piece)
{
    return cached->length == piece.length && memcmp(cached->piece, piece.bytes, piece.length) == 0;
}

static void remember(struct cached *cached, struct mr_text piece, const uint32_t *ids, size_t count)
{
    if (count > CACHE_IDS) return;
    cached->length = (uint8_t)piece.length;
    cached->count = (uint8_t)count;
    memcpy(cached->piece, piece.bytes, piece.length);
    memcpy(cached->ids, ids, count * sizeof *ids);
}

static uint32_t whole_token(const struct mr_bpe *bpe, struct mr_text piece)
{
    if (!bpe->options.ignore_merges) return MR_TOKEN_NONE;
    return mr_vocab_find(bpe->words ? bpe->words : bpe->vocab, piece);
}

/* Encodes a piece of at most SCAN_MAX symbols into scratch->short_ids; returns the number of ids.
 */
static size_t encode_short(const struct mr_bpe *bpe, struct mr_bpe_scratch *scratch,
                           struct mr_text piece)
{
    uint32_t whole = whole_token(bpe, piece);
    if (whole != MR_TOKEN_NONE) {
        scratch->short_ids[0] = whole;
        return 1;
    }
    size_t count = split_piece(bpe, piece, scratch->short_ids, SCAN_MAX);
    return merge_short(bpe, scratch->short_ids, scratch->short_ranks, count);
}

static enum mr_status encode_whole(const struct mr_bpe *bpe, struct mr_bpe_scratch *scratch,
                                   struct mr_text piece, struct mr_id_list *out,
                                   struct mr_error *err)
{
    if (piece.length > SCAN_MAX / 2) {
        uint32_t whole = whole_token(bpe, piece);
        if (whole == MR_TOKEN_NONE) return encode_long(bpe, scratch, piece, out, err);
        mr_id_list_add(out, whole);
        return MR_OK;
    }
    struct cached *cached = piece.length <= CACHE_PIECE_BYTES ? cache_slot(scratch, piece) : NULL;
    if (cached && holds(cached, piece)) {
        for (size_t i = 0; i < cached->count; i++)
            mr_id_list_add(out, cached->ids[i]);
        return MR_OK;
    }
    size_t count = encode_short(bpe, scratch, piece);
    for (size_t i = 0; i < count; i++)
        mr_id_list_add(out, scratch->short_ids[i]);
    if (cached) remember(cached, piece, scratch->short_ids, count);
    return MR_OK;
}

/* True when a piece of text may be cut between the characters left and right. left must be a token,
 * because an unknown character may fuse with the next. */
static bool may_cut(const struct mr_bpe *bpe, struct mr_text before, uint32_t left, uint32_t right)
{
    uint32_t joint = joint_of(left, right);
    if (bpe->joints[joint / 64] >> joint % 64 & 1) return false;
    uint32_t id = left < 0x80 ? bpe->single[left] : mr_vocab_find(bpe->vocab, before);
    return id != MR_TOKEN_NONE;
}

static enum mr_status encode_parts(const struct mr_bpe *bpe, struct mr_bpe_scratch *scratch,
                                   struct mr_text piece, struct mr_id_list *out,
                                   struct mr_error *err)
{
    size_t start = 0, before = 0;
    struct mr_utf8_step left = mr_utf8_next(piece, 0);
    for (size_t at = left.length; at < piece.length;) {
        if (mr_id_list_is_enough(out)) return MR_OK;
        struct mr_utf8_step right = mr_utf8_next(piece, at);
        struct mr_text character = {piece.bytes + before, left.length};
        if (may_cut(bpe, character, left.code_point, right.code_point)) {
            struct mr_text part = mr_text_part(piece, start, at);
            enum mr_status status = encode_whole(bpe, scratch, part, out, err);
            if (status != MR_OK) return status;
            start = at;
        }
        before = at;
        left = right;
        at += right.length;
    }
    struct mr_text rest = mr_text_part(piece, start, piece.length);
    return encode_whole(bpe, scratch, rest, out, err);
}

enum mr_status mr_bpe_encode(const struct mr_bpe *bpe, struct mr_bpe_scratch *scratch,
                             struct mr_text piece, struct mr_id_list *out, struct mr_error *err)
{
    MR_ASSERT(piece.length > 0 && scratch->bpe == bpe);
    if (bpe->joints) return encode_parts(bpe, scratch, piece, out, err);
    return encode_whole(bpe, scratch, piece, out, err);
}
