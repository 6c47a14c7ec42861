/* The records of tests/golden, which make_records.py writes with the reference msgpack library:
 * good requests decode to the same in both encodings, answers have the reference's bytes, poison
 * records have their error code, and randomly changed records are decoded or rejected. */
#include "answers.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>

#define REQUESTS "tests/golden/wire/requests/"
#define POISON   "tests/golden/poison/"

/* The bytes of a file in a block of exactly that size, which the caller frees. */
static struct mr_text read_file(const char *folder, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("cannot open %s", path);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size_t length = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(length ? length : 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, length, file), length);
    fclose(file);
    return (struct mr_text){bytes, length};
}

/* ---- good records ---- */

static bool same_text(struct mr_text a, struct mr_text b)
{
    return a.length == b.length && (a.length == 0 || memcmp(a.bytes, b.bytes, a.length) == 0);
}

static void same_texts(const struct mr_text *a, size_t a_count, const struct mr_text *b,
                       size_t b_count)
{
    assert_int_equal(a_count, b_count);
    for (size_t i = 0; i < a_count; i++)
        assert_true(same_text(a[i], b[i]));
}

static void same_ids(const uint32_t *a, size_t a_count, const uint32_t *b, size_t b_count)
{
    assert_int_equal(a_count, b_count);
    if (a_count) assert_memory_equal(a, b, a_count * sizeof *a);
}

/* Both are the same number, or neither is set. */
static void same_float(float a, float b)
{
    assert_true(a == b || (isnan(a) && isnan(b)));
}

static void same_sampling(const struct mr_sampling *a, const struct mr_sampling *b)
{
    same_float(a->temperature, b->temperature);
    same_float(a->top_p, b->top_p);
    same_float(a->min_p, b->min_p);
    same_float(a->typical_p, b->typical_p);
    same_float(a->repetition_penalty, b->repetition_penalty);
    same_float(a->presence_penalty, b->presence_penalty);
    same_float(a->frequency_penalty, b->frequency_penalty);
    assert_int_equal(a->top_k, b->top_k);
    assert_true(a->seed == b->seed && a->has_seed == b->has_seed && a->logprobs == b->logprobs);
    assert_int_equal(a->logit_bias_count, b->logit_bias_count);
    for (size_t i = 0; i < a->logit_bias_count; i++)
        assert_true(a->logit_bias[i].token_id == b->logit_bias[i].token_id &&
                    a->logit_bias[i].bias == b->logit_bias[i].bias);
    same_ids(a->allowed_token_ids, a->allowed_token_count, b->allowed_token_ids,
             b->allowed_token_count);
    same_texts(a->bad_words, a->bad_word_count, b->bad_words, b->bad_word_count);
}

static void same_data(const struct mr_data *a, const struct mr_data *b)
{
    assert_int_equal(a->kind, b->kind);
    if (a->kind == MR_DATA_INT || a->kind == MR_DATA_BOOL) assert_int_equal(a->integer, b->integer);
    if (a->kind == MR_DATA_FLOAT) assert_true(a->number == b->number);
    if (a->kind == MR_DATA_TEXT) assert_true(same_text(a->text, b->text));
    if (a->kind == MR_DATA_LIST) {
        assert_int_equal(a->list.count, b->list.count);
        for (size_t i = 0; i < a->list.count; i++)
            same_data(&a->list.items[i], &b->list.items[i]);
    }
    if (a->kind == MR_DATA_MAP) {
        assert_int_equal(a->map.count, b->map.count);
        for (size_t i = 0; i < a->map.count; i++) {
            assert_true(same_text(a->map.members[i].name, b->map.members[i].name));
            same_data(&a->map.members[i].value, &b->map.members[i].value);
        }
    }
}

static void same_chat(const struct mr_chat *a, const struct mr_chat *b)
{
    assert_int_equal(a->message_count, b->message_count);
    for (size_t i = 0; i < a->message_count; i++)
        same_data(&a->messages[i], &b->messages[i]);
    same_data(&a->tools, &b->tools);
    same_data(&a->documents, &b->documents);
    same_data(&a->kwargs, &b->kwargs);
    assert_int_equal(a->add_generation_prompt, b->add_generation_prompt);
    assert_int_equal(a->continue_final_message, b->continue_final_message);
}

static void same_request(const struct mr_request *a, const struct mr_request *b)
{
    assert_true(same_text(a->id, b->id) && same_text(a->model, b->model));
    assert_true(same_text(a->prompt, b->prompt) && same_text(a->session, b->session));
    same_chat(&a->chat, &b->chat);
    assert_int_equal(a->has_token_ids, b->has_token_ids);
    same_ids(a->token_ids, a->token_count, b->token_ids, b->token_count);
    same_sampling(&a->sampling, &b->sampling);
    assert_true(a->max_tokens == b->max_tokens && a->min_tokens == b->min_tokens);
    assert_true(a->ignore_eos == b->ignore_eos && a->include_stop == b->include_stop);
    assert_true(a->stream == b->stream && a->max_chars == b->max_chars);
    same_texts(a->stops, a->stop_count, b->stops, b->stop_count);
    same_ids(a->stop_token_ids, a->stop_token_count, b->stop_token_ids, b->stop_token_count);
    assert_true(a->min_confidence == b->min_confidence && a->choice_count == b->choice_count);
    assert_true(a->priority == b->priority && a->deadline_ms == b->deadline_ms);
    assert_true(a->cache_read == b->cache_read && a->cache_write == b->cache_write);
    assert_int_equal(a->metadata.length > 0, b->metadata.length > 0);
    assert_int_equal(a->unknown_fields, b->unknown_fields);
}

/* Calls visit with NAME for each file NAME.json in the folder; returns the number of files. */
static size_t each_request(void (*visit)(const char *name))
{
    size_t count = 0;
    DIR *folder = opendir(REQUESTS);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        const char *dot = strrchr(entry->d_name, '.');
        if (!dot || strcmp(dot, ".json") != 0) continue;
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)(dot - entry->d_name), entry->d_name);
        visit(name);
        count++;
    }
    closedir(folder);
    return count;
}

static void check_request(const char *name)
{
    char file[300];
    snprintf(file, sizeof file, "%s.json", name);
    struct mr_text json = read_file(REQUESTS, file);
    snprintf(file, sizeof file, "%s.msgpack", name);
    struct mr_text msgpack = read_file(REQUESTS, file);
    struct decoded one = decode(json), two = decode(msgpack);
    if (one.status != MR_OK) fail_msg("%s.json: %s", name, one.err.detail);
    if (two.status != MR_OK) fail_msg("%s.msgpack: %s", name, two.err.detail);
    assert_int_equal(one.request->encoding, MR_ENCODING_JSON);
    assert_int_equal(two.request->encoding, MR_ENCODING_MSGPACK);
    same_request(one.request, two.request);
    mr_request_destroy(one.request);
    mr_request_destroy(two.request);
    free((char *)json.bytes);
    free((char *)msgpack.bytes);
}

static void a_request_means_the_same_in_both_encodings(void **state)
{
    (void)state;
    assert_int_equal(each_request(check_request), 12);
}

/* ---- answers ---- */

static void equals_file(unsigned char *bytes, size_t length, const char *name)
{
    struct mr_text expected = read_file("tests/golden/wire/answers/", name);
    assert_int_equal(length, expected.length);
    assert_memory_equal(bytes, expected.bytes, length);
    free((char *)expected.bytes);
    free(bytes);
}

static void answers_have_the_bytes_of_the_reference(void **state)
{
    (void)state;
    static const uint32_t ids[] = {10, 300, 70000};
    unsigned char *bytes;
    size_t length;
    struct mr_error err;
    struct mr_token_record token = {.id = {"id-1", 4},
                                    .attempt = 1,
                                    .index = 7,
                                    .resumed_at = -1,
                                    .token_ids = ids,
                                    .token_count = 3,
                                    .text = {" h\xc3\xa4llo", 7}};
    assert_int_equal(mr_token_record_encode(&token, MR_ENCODING_MSGPACK, &bytes, &length, &err),
                     MR_OK);
    equals_file(bytes, length, "token.msgpack");
    token = (struct mr_token_record){
        .id = {"id-1", 4}, .attempt = 2, .choice = 1, .index = 7, .resumed_at = 7};
    assert_int_equal(mr_token_record_encode(&token, MR_ENCODING_MSGPACK, &bytes, &length, &err),
                     MR_OK);
    equals_file(bytes, length, "resumed.msgpack");
    struct mr_choice choice = answer_choice();
    choice.finish = choice.stopped_by = MR_FINISH_STOP_TOKEN;
    choice.stop_token = 42;
    struct mr_result result = answer_result(&choice, 1);
    result.error = MR_CANCELLED;
    result.error_message = "asked to";
    result.metadata = (struct mr_text){"\x81\xa1k\x92\x01\xc0", 6};
    assert_int_equal(mr_result_encode(&result, MR_ENCODING_MSGPACK, &bytes, &length, &err), MR_OK);
    equals_file(bytes, length, "result.msgpack");
}

/* ---- poison ---- */

static void check_poison(const char *name, struct mr_text record, const char *header,
                         const char *code, const char *id)
{
    struct mr_request_context context = test_context();
    if (strcmp(header, "-") != 0) context.content_type = text_of(header);
    struct decoded got = decode_with(record, &context);
    if (strcmp(mr_status_code(got.status), code) != 0)
        fail_msg("%s: %s instead of %s (%s)", name, mr_status_code(got.status), code,
                 got.err.detail);
    assert_int_equal(mr_status_class(got.status), MR_CLASS_REJECT);
    const char *expected = strcmp(id, "-") == 0 ? "millrace.requests/3/41" : id;
    if (strcmp(got.address.id, expected) != 0)
        fail_msg("%s is answered as %s", name, got.address.id);
    assert_true(got.err.detail[0] != '\0');
}

/* Splits a line of four fields with tabs between them. */
static void split_row(char *line, const char *fields[4])
{
    for (size_t i = 0; i < 4; i++) {
        size_t length = strcspn(line, "\t\n");
        assert_int_equal(line[length], i < 3 ? '\t' : '\n');
        fields[i] = line;
        line[length] = '\0';
        line += length + 1;
    }
}

static void every_poison_record_has_its_error_code(void **state)
{
    (void)state;
    char line[512];
    size_t count = 0;
    FILE *manifest = fopen(POISON "manifest.tsv", "r");
    assert_non_null(manifest);
    for (; fgets(line, sizeof line, manifest); count++) {
        const char *fields[4];
        split_row(line, fields);
        struct mr_text record = read_file(POISON, fields[0]);
        check_poison(fields[0], record, fields[1], fields[2], fields[3]);
        free((char *)record.bytes);
    }
    fclose(manifest);
    assert_true(count >= 160);
}

static void a_record_above_the_limit_keeps_its_id_and_is_too_large(void **state)
{
    (void)state;
    char *record;
    int length = asprintf(&record, "{\"id\":\"p\",\"prompt\":\"%0*d\"}", 1 << 20, 0);
    assert_true(length > 1 << 20);
    check_poison("oversize", (struct mr_text){record, (size_t)length}, "-", "record_too_large",
                 "p");
    free(record);
}

/* ---- random changes ---- */

/* SplitMix64 (Steele, Lea and Flood, 2014) with a fixed seed, so that a failure can be repeated. */
static uint64_t dice;

static uint64_t roll(uint64_t sides)
{
    uint64_t z = dice += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % sides;
}

/* Makes one to four random changes: sets a byte, flips a bit, or removes, doubles or fills a part.
 * Returns the new length; bytes has room for twice the length. */
static size_t mutate(unsigned char *bytes, size_t length, size_t capacity)
{
    static const unsigned char telling[] = {0x00, 0x80, 0x8f, 0x90, 0xc1, 0xca, 0xcb, 0xcf, 0xd9,
                                            0xdb, 0xdc, 0xdd, 0xde, 0xdf, 0xff, '"',  '{',  '[',
                                            ']',  '}',  ',',  ':',  '\\', '-',  'e'};
    for (uint64_t changes = 1 + roll(4); changes > 0 && length > 0; changes--) {
        size_t at = (size_t)roll(length), piece = (size_t)roll(length - at < 16 ? length - at : 16);
        switch (roll(6)) {
        case 0:
            bytes[at] = (unsigned char)roll(256);
            break;
        case 1:
            bytes[at] ^= (unsigned char)(1u << roll(8));
            break;
        case 2:
            bytes[at] = telling[roll(sizeof telling)];
            break;
        case 3:
            memmove(bytes + at, bytes + at + piece, length - at - piece);
            length -= piece;
            break;
        case 4:
            if (length + piece > capacity) break;
            memmove(bytes + at + piece, bytes + at, length - at);
            length += piece;
            break;
        default:
            memset(bytes + at, telling[roll(sizeof telling)], piece);
        }
    }
    return roll(8) == 0 ? (size_t)roll(length + 1) : length;
}

#define MUTATIONS 5000

static size_t accepted, refused;

static void shake(const char *file)
{
    struct mr_text good = read_file(REQUESTS, file);
    if (good.length > 4096) good.length = 4096;
    unsigned char *work = malloc(2 * good.length);
    assert_non_null(work);
    for (int i = 0; i < MUTATIONS; i++) {
        memcpy(work, good.bytes, good.length);
        size_t length = mutate(work, good.length, 2 * good.length);
        char *exact = malloc(length ? length : 1);
        assert_non_null(exact);
        memcpy(exact, work, length);
        struct decoded got = decode((struct mr_text){exact, length});
        free(exact);
        enum mr_status_class class = mr_status_class(got.status);
        assert_true(class == MR_CLASS_FINE || class == MR_CLASS_REJECT);
        accepted += class == MR_CLASS_FINE;
        refused += class == MR_CLASS_REJECT;
        assert_true(strlen(got.address.id) >= 1 && strlen(got.address.id) <= MR_ID_BYTES_MAX);
        mr_request_destroy(got.request);
    }
    free(work);
    free((char *)good.bytes);
}

static void shake_both(const char *name)
{
    char file[300];
    snprintf(file, sizeof file, "%s.json", name);
    shake(file);
    snprintf(file, sizeof file, "%s.msgpack", name);
    shake(file);
}

static void randomly_changed_records_are_decoded_or_rejected(void **state)
{
    (void)state;
    dice = 20250615;
    accepted = refused = 0;
    assert_int_equal(each_request(shake_both), 12);
    print_message("%zu changed records accepted, %zu refused\n", accepted, refused);
    assert_true(accepted > 1000 && refused > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_means_the_same_in_both_encodings),
        cmocka_unit_test(answers_have_the_bytes_of_the_reference),
        cmocka_unit_test(every_poison_record_has_its_error_code),
        cmocka_unit_test(a_record_above_the_limit_keeps_its_id_and_is_too_large),
        cmocka_unit_test(randomly_changed_records_are_decoded_or_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
