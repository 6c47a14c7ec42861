/* Draws answers of grammars at random, without a model, for test_grammar.py.
 *
 *   grammar_draw TOKENIZER < requests > answers
 *
 * TOKENIZER: a .gguf file or a tokenizer.json. A request is a line {"kind": "json_schema" |
 * "json_object" | "regex" | "choice" | "grammar", "text": source, "draws": number, "seed": number}.
 * Its answer is a line {"error", "code"} or {"compile_us", "bytes", "rows_us": [time of each mask],
 * "texts": [answers that ended]}. Each token is drawn from the mask. End tokens and punctuation are
 * preferred, so that answers end. An answer that does not end within TOKENS_MAX tokens is left out.
 * After each token the mask is compared with the matcher for a few tokens, and the program aborts
 * if they disagree. */
#include "codec/check.h"
#include "codec/constraint/constraint.h"
#include "codec/grammar/token_mask.h"
#include "codec/tokenizer_files/tokenizer_json.h"
#include "codec/wire/json.h"
#include "codec/wire/json_writer.h"
#include "ops/files/gguf_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TOKENS_MAX     600u
#define LINE_BYTES_MAX ((size_t)16 << 20)

struct draw {
    struct mr_tokenizer *tokenizer;
    struct mr_token_mask *mask;
    uint64_t *bits;
    uint32_t words, random;
    struct mr_buffer text;
    bool spelled[256];
    struct mr_json_writer out;
};

static double microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static uint32_t random_below(struct draw *draw, uint32_t count)
{
    draw->random ^= draw->random << 13;
    draw->random ^= draw->random >> 17;
    draw->random ^= draw->random << 5;
    return draw->random % count;
}

static struct mr_tokenizer *load(const char *path)
{
    struct mr_tokenizer *tokenizer = NULL;
    struct mr_error err = {.detail = ""};
    struct mr_gguf *gguf = NULL;
    if (strstr(path, ".gguf")) {
        if (mr_gguf_open(&gguf, path, &err) == MR_OK)
            mr_gguf_tokenizer_create(&tokenizer, gguf, &err);
        mr_gguf_close(gguf);
    } else {
        FILE *file = fopen(path, "rb");
        char *bytes = malloc(LINE_BYTES_MAX * 2);
        size_t length = file && bytes ? fread(bytes, 1, LINE_BYTES_MAX * 2, file) : 0;
        if (file) fclose(file);
        mr_tokenizer_from_json(&tokenizer, (struct mr_text){bytes, length},
                               (struct mr_text){NULL, 0}, &err);
        free(bytes);
    }
    if (!tokenizer) fprintf(stderr, "%s: %s\n", path, err.detail);
    return tokenizer;
}

static bool is_set(const struct draw *draw, uint32_t id)
{
    return draw->bits[id / 64] >> (id % 64) & 1;
}

/* A random allowed token, or MR_TOKEN_NONE. structure: prefer ASCII punctuation. */
static uint32_t pick(struct draw *draw, bool structure)
{
    uint32_t chosen = MR_TOKEN_NONE, seen = 0, vocab = mr_tokenizer_vocab_size(draw->tokenizer);
    for (uint32_t word = 0; word < draw->words; word++) {
        if (draw->bits[word] == 0) continue;
        for (uint32_t id = word * 64; id < word * 64 + 64 && id < vocab; id++) {
            if (!is_set(draw, id)) continue;
            struct mr_text bytes = mr_tokenizer_bytes(draw->tokenizer, id, true);
            bool sign = memchr("\"]},:0", bytes.bytes[bytes.length - 1], 6) != NULL;
            if (structure && !sign) continue;
            if (random_below(draw, ++seen) == 0) chosen = id;
        }
    }
    return chosen;
}

/* Compares the mask with the matcher for some random tokens. is_cut: the mask may lack allowed
 * tokens. */
static void check(struct draw *draw, const struct mr_matcher *matcher, bool is_cut)
{
    static struct mr_matcher copy;
    for (unsigned i = 0; i < 20; i++) {
        uint32_t id = random_below(draw, mr_tokenizer_vocab_size(draw->tokenizer));
        mr_matcher_copy(&copy, matcher);
        bool taken = mr_token_mask_accept(draw->mask, &copy, id);
        MR_ASSERT(taken == is_set(draw, id) || (taken && is_cut));
    }
}

/* Draws one answer into draw->text. False: the answer does not end. */
static bool answer(struct draw *draw, const struct mr_grammar *grammar, double *rows,
                   uint32_t *row_count)
{
    static struct mr_matcher matcher;
    mr_buffer_clear(&draw->text);
    mr_token_mask_start(draw->mask, &matcher, grammar);
    for (uint32_t i = 0; i < TOKENS_MAX; i++) {
        uint64_t cut = mr_token_mask_stats(draw->mask).cut;
        double begin = microseconds();
        mr_token_mask_fill(draw->mask, &matcher, draw->bits);
        rows[(*row_count)++] = microseconds() - begin;
        if (matcher.can_end && (mr_matcher_is_over(&matcher) || random_below(draw, 2))) return true;
        check(draw, &matcher, mr_token_mask_stats(draw->mask).cut > cut);
        uint32_t id = pick(draw, random_below(draw, 100) < 30 + 60 * i / TOKENS_MAX);
        if (id == MR_TOKEN_NONE) id = pick(draw, false);
        MR_ASSERT(id != MR_TOKEN_NONE);
        MR_ASSERT(mr_token_mask_accept(draw->mask, &matcher, id));
        mr_buffer_append(&draw->text, mr_tokenizer_bytes(draw->tokenizer, id, true));
    }
    return false;
}

static void answer_request(struct draw *draw, const struct mr_constraint *source, uint32_t draws)
{
    struct mr_grammar *grammar;
    struct mr_error err = {.detail = ""};
    double begin = microseconds();
    enum mr_status status = mr_constraint_compile(&grammar, source, draw->spelled, &err);
    double spent = microseconds() - begin;
    mr_json_name(&draw->out, "compile_us");
    mr_json_put_double(&draw->out, spent);
    if (status != MR_OK) {
        mr_json_name(&draw->out, "error");
        mr_json_put_string(&draw->out, err.detail);
        mr_json_name(&draw->out, "code");
        mr_json_put_string(&draw->out, mr_status_code(status));
        return;
    }
    double *rows = calloc((size_t)draws * TOKENS_MAX + 1, sizeof *rows);
    uint32_t row_count = 0;
    mr_json_name(&draw->out, "bytes");
    mr_json_put_uint(&draw->out, mr_grammar_bytes(grammar));
    mr_json_name(&draw->out, "texts");
    mr_json_begin_array(&draw->out);
    for (uint32_t i = 0; i < draws && rows; i++)
        if (answer(draw, grammar, rows, &row_count))
            mr_json_put_text(&draw->out, mr_buffer_text(&draw->text));
    mr_json_end(&draw->out);
    mr_json_name(&draw->out, "rows_us");
    mr_json_begin_array(&draw->out);
    for (uint32_t i = 0; i < row_count; i++)
        mr_json_put_float(&draw->out, (float)rows[i]);
    mr_json_end(&draw->out);
    free(rows);
    mr_grammar_drop(grammar);
}

static enum mr_constraint_kind kind_of(struct mr_text name)
{
    static const char *const names[] = {"",      "json_object", "json_schema",
                                        "regex", "choice",      "grammar"};
    for (size_t i = 1; i < sizeof names / sizeof names[0]; i++)
        if (mr_text_is(name, names[i])) return (enum mr_constraint_kind)i;
    return MR_CONSTRAINT_NONE;
}

static bool serve_line(struct draw *draw, struct mr_text line)
{
    static const struct mr_json_limits limits = {LINE_BYTES_MAX, 64, 4};
    struct mr_json *request;
    struct mr_error err;
    struct mr_text kind = {"", 0};
    struct mr_constraint source = {.text = {"", 0}};
    int64_t draws = 1, seed = 1;
    if (mr_json_parse(&request, line, &limits, &err) != MR_OK) {
        fprintf(stderr, "request: %s\n", err.detail);
        return false;
    }
    const struct mr_json_value *root = mr_json_root(request);
    mr_json_text(mr_json_get(root, "kind"), &kind);
    mr_json_text(mr_json_get(root, "text"), &source.text);
    mr_json_int(mr_json_get(root, "draws"), &draws);
    mr_json_int(mr_json_get(root, "seed"), &seed);
    source.kind = kind_of(kind);
    draw->random = (uint32_t)seed * 2654435761u | 1;
    mr_json_writer_init(&draw->out, (size_t)1 << 30);
    mr_json_begin_object(&draw->out);
    answer_request(draw, &source, (uint32_t)draws);
    mr_json_end(&draw->out);
    char *bytes;
    size_t length;
    bool written = mr_json_writer_take(&draw->out, &bytes, &length, &err) == MR_OK;
    if (written) puts(bytes);
    free(bytes);
    mr_json_destroy(request);
    return written;
}

int main(int argc, char **argv)
{
    struct draw draw = {0};
    struct mr_error err = {.detail = ""};
    if (argc != 2 || !(draw.tokenizer = load(argv[1]))) {
        fprintf(stderr, "usage: grammar_draw TOKENIZER < requests\n");
        return 2;
    }
    if (mr_token_mask_create(&draw.mask, draw.tokenizer, mr_tokenizer_vocab_size(draw.tokenizer),
                             NULL, 0, &err) != MR_OK) {
        fprintf(stderr, "%s\n", err.detail);
        return 1;
    }
    mr_token_mask_spelled(draw.tokenizer, draw.spelled);
    draw.words = mr_token_mask_words(draw.mask);
    draw.bits = calloc(draw.words, sizeof *draw.bits);
    mr_buffer_init(&draw.text, (size_t)64 << 20);
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    bool fine = draw.bits != NULL;
    while (fine && (length = getline(&line, &capacity, stdin)) > 0)
        fine = serve_line(&draw, (struct mr_text){line, (size_t)length});
    free(line);
    free(draw.bits);
    mr_buffer_drop(&draw.text);
    mr_token_mask_destroy(draw.mask);
    mr_tokenizer_destroy(draw.tokenizer);
    return fine ? 0 : 1;
}
