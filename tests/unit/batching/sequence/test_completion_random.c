/* Random answers over tokens with parts of characters and of stop strings: streaming is compared
 * with decoding the whole answer at once and searching it naively. */
#include "batching/sequence/completion.h"

#include "small_vocab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define TOKENS     12u
#define ANSWER_MAX 24u

static const char *const spellings[TOKENS] = {"a",    "b",    "ab",       "ba", "aab", "\xe2",
                                              "\x82", "\xac", "\xe2\x82", " ",  "b a", "<eos>"};
static const uint32_t eos_id = TOKENS - 1;
static const char *const stop_choices[] = {"ab",
                                           "aba",
                                           "bb a",
                                           "\xe2\x82\xac",
                                           ("\xef\xbf\xbd"
                                            "b"),
                                           "b a",
                                           "aa",
                                           "bab"};

struct world {
    struct mr_completion_model model;
    uint64_t seed;
    struct mr_request request;
    struct mr_text stops[3];
    uint32_t ids[ANSWER_MAX];
};

/* The answer decoded as a whole: its text and where each token's text ends. */
struct whole {
    char text[1024];
    size_t length, cut, ends[ANSWER_MAX];
    uint32_t token_count, kept;
    enum mr_finish reason;
};

static uint32_t draw(struct world *world, uint32_t below)
{
    world->seed = world->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(world->seed >> 33) % below;
}

/* Decodes bytes with U+FFFD in place of ill-formed ones; leaves out an incomplete character at the
 * end unless `all`. */
static size_t decode(struct mr_text bytes, bool all, char *out)
{
    size_t length = 0;
    for (size_t at = 0; at < bytes.length;) {
        struct mr_utf8_step step = mr_utf8_next(bytes, at);
        if (!all && !step.valid && mr_utf8_is_unfinished(bytes, at)) break;
        length += mr_utf8_put(out + length, step.code_point);
        at += step.length;
    }
    return length;
}

static size_t chars_in(const char *text, size_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

static size_t bytes_of_chars(const char *text, size_t length, size_t chars)
{
    size_t at = 0;
    while (at < length && (chars_in(text, at + 1) <= chars))
        at++;
    return at;
}

/* Finds the stop string that ends first after `from` in text[0, length), and where it begins and
 * ends. */
static bool first_stop(const struct world *world, const char *text, size_t from, size_t length,
                       size_t *begin, size_t *end)
{
    for (size_t at = from + 1; at <= length; at++)
        for (size_t i = 0; i < world->request.stop_count; i++) {
            struct mr_text stop = world->stops[i];
            if (stop.length > at) continue;
            if (memcmp(text + at - stop.length, stop.bytes, stop.length) != 0) continue;
            *begin = at - stop.length;
            *end = at;
            return true;
        }
    return false;
}

/* Length of the text after `count` tokens; stop strings end after the first min_tokens. */
static bool ends_here(const struct world *world, struct whole *seen, uint32_t count)
{
    const struct mr_request *request = &world->request;
    size_t from = request->min_tokens == 0      ? 0
                  : request->min_tokens > count ? seen->length
                                                : seen->ends[request->min_tokens - 1];
    size_t begin, end;
    bool stopped = first_stop(world, seen->text, from, seen->length, &begin, &end);
    if (stopped) seen->cut = request->include_stop ? end : begin;
    size_t kept = stopped ? seen->cut : seen->length;
    bool full = request->max_chars > 0 && chars_in(seen->text, seen->length) >= request->max_chars;
    if (full && bytes_of_chars(seen->text, kept, request->max_chars) < kept)
        seen->cut = bytes_of_chars(seen->text, kept, request->max_chars);
    if (count >= request->max_tokens)
        seen->reason = MR_FINISH_LENGTH;
    else if (stopped)
        seen->reason = MR_FINISH_STOP_STRING;
    else if (full)
        seen->reason = MR_FINISH_MAX_CHARS;
    return seen->reason != MR_FINISH_NONE;
}

static void look_back(const struct world *world, struct whole *seen)
{
    char bytes[256];
    size_t length = 0;
    *seen = (struct whole){.cut = SIZE_MAX};
    for (uint32_t i = 0; seen->reason == MR_FINISH_NONE; i++) {
        bool is_end = world->ids[i] == eos_id && i >= world->request.min_tokens;
        if (is_end) {
            seen->reason = i + 1 >= world->request.max_tokens ? MR_FINISH_LENGTH : MR_FINISH_EOS;
            break;
        }
        if (world->ids[i] != eos_id) {
            size_t more = strlen(spellings[world->ids[i]]);
            memcpy(bytes + length, spellings[world->ids[i]], more);
            length += more;
        }
        seen->length = decode((struct mr_text){bytes, length}, false, seen->text);
        seen->ends[i] = seen->length;
        seen->token_count = i + 1;
        (void)ends_here(world, seen, i + 1);
    }
    if (seen->cut == SIZE_MAX) {
        seen->length = decode((struct mr_text){bytes, length}, true, seen->text);
        if (world->request.max_chars > 0)
            seen->length = bytes_of_chars(seen->text, seen->length, world->request.max_chars);
        seen->kept = seen->token_count;
        return;
    }
    seen->length = seen->cut;
    for (seen->kept = seen->token_count; seen->kept > 0; seen->kept--) {
        size_t start = seen->kept > 1 ? seen->ends[seen->kept - 2] : 0;
        if (start < seen->cut) break;
    }
}

static void invent(struct world *world)
{
    struct mr_request *request = &world->request;
    *request = (struct mr_request){.sampling.logprobs = -1, .stops = world->stops};
    request->stop_count = draw(world, 4);
    for (size_t i = 0; i < request->stop_count; i++) {
        const char *stop = stop_choices[draw(world, 8)];
        world->stops[i] = (struct mr_text){stop, strlen(stop)};
    }
    request->max_tokens = 1 + draw(world, ANSWER_MAX);
    request->min_tokens = draw(world, 3) == 0 ? draw(world, 6) : 0;
    request->max_chars = draw(world, 3) == 0 ? 1 + draw(world, 12) : 0;
    request->include_stop = draw(world, 2) == 0;
    for (uint32_t i = 0; i < ANSWER_MAX; i++)
        world->ids[i] = draw(world, draw(world, 8) == 0 ? TOKENS : TOKENS - 1);
}

static void compare(struct world *world, struct mr_completion *completion)
{
    struct whole seen;
    look_back(world, &seen);
    char text[1024];
    size_t length = 0;
    uint32_t tokens = 0, pushed = 0;
    enum mr_finish reason = MR_FINISH_NONE;
    while (reason == MR_FINISH_NONE) {
        struct mr_sample sample = {.token_id = world->ids[pushed++], .probability = 1};
        struct mr_completion_delta delta;
        reason = mr_completion_push(completion, &sample, MR_FINISH_NONE, &delta);
        mr_completion_check(completion);
        assert_true(mr_utf8_is_valid(delta.text));
        assert_int_equal(delta.index, tokens);
        memcpy(text + length, delta.text.bytes, delta.text.length);
        length += delta.text.length;
        for (uint32_t i = 0; i < delta.token_count; i++)
            assert_int_equal(delta.token_ids[i], world->ids[tokens++]);
    }
    assert_int_equal(reason, seen.reason);
    assert_int_equal(length, seen.length);
    assert_memory_equal(text, seen.text, length);
    assert_int_equal(tokens, seen.kept);
    struct mr_choice choice = mr_completion_choice(completion);
    assert_int_equal(choice.completion_tokens, pushed);
    assert_int_equal(choice.text.length, length);
    assert_int_equal(choice.token_count, tokens);
}

static void streamed_answers_equal_decoding_at_once(void **state)
{
    (void)state;
    struct world world = {.seed = 11};
    struct mr_tokenizer *tokenizer = small_vocab_create(spellings, TOKENS, 1);
    assert_non_null(tokenizer);
    struct mr_token_text *texts = NULL;
    assert_int_equal(mr_token_text_create(&texts, tokenizer, NULL), MR_OK);
    world.model = (struct mr_completion_model){tokenizer, texts, &eos_id, 1};
    uint32_t reasons[MR_FINISH_COUNT] = {0};
    for (int round = 0; round < 100000; round++) {
        invent(&world);
        struct mr_arena *arena = mr_arena_create(1 << 20);
        struct mr_stop_match *matcher;
        struct mr_completion *completion;
        assert_int_equal(
            mr_stop_match_create(&matcher, arena, world.stops, world.request.stop_count, NULL),
            MR_OK);
        assert_int_equal(
            mr_completion_create(&completion, &world.model, &world.request, matcher, 1000, NULL),
            MR_OK);
        compare(&world, completion);
        reasons[mr_completion_choice(completion).finish]++;
        mr_completion_destroy(completion);
        mr_arena_destroy(arena);
    }
    static const enum mr_finish expected[] = {MR_FINISH_LENGTH, MR_FINISH_EOS,
                                              MR_FINISH_STOP_STRING, MR_FINISH_MAX_CHARS};
    for (size_t i = 0; i < 4; i++)
        assert_true(reasons[expected[i]] > 1000);
    mr_token_text_destroy(texts);
    mr_tokenizer_destroy(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streamed_answers_equal_decoding_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
