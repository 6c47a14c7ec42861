/* Compares rendered chats with the cases that tests/golden/make_templates.py made with the
 * reference. With arguments
 *
 *     golden_test_templates TEMPLATE RECORDS UNIX_SECONDS [tokenizer.json]
 *
 * it prints, for each line of RECORDS, a request record in JSON, one line with tabs between:
 * status, reason, rendered text in hexadecimal, the ranges of the request, token ids.
 * tests/golden/compare_templates.py reads that. */
#include "codec/limits.h"
#include "codec/records/request_decode.h"
#include "codec/template/chat_template.h"
#include "codec/tokenizer_files/tokenizer_json.h"
#include "codec/wire/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const case_paths[] = {
    "tests/golden/templates/cases.json",
    "tests/golden/templates/features.json",
    "tests/golden/templates/tools.json",
    /* inputs of fuzz_template, written by tests/fuzz/compare_templates.py */
    "tests/golden/templates/fuzzed.json",
};

static struct mr_text read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "cannot open %s\n", path);
        exit(2);
    }
    fseek(file, 0, SEEK_END);
    size_t length = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(length + 1);
    if (!bytes || fread(bytes, 1, length, file) != length) exit(2);
    bytes[length] = '\0';
    fclose(file);
    return (struct mr_text){bytes, length};
}

struct rendering {
    enum mr_status status;
    struct mr_error err;
    struct mr_request *request; /* NULL: not decoded */
    struct mr_rendered rendered;
};

/* Renders a record; the caller destroys rendering->request, which owns the text. */
static void render(struct rendering *out, const struct mr_chat_template *compiled,
                   struct mr_text record, uint64_t unix_seconds)
{
    struct mr_request_context context = {.fallback_id = {"t/0/0", 5},
                                         .content_type = {"application/json", 16},
                                         .now_ms = (int64_t)unix_seconds * 1000,
                                         .default_max_tokens = 16,
                                         .record_bytes_max = MR_RECORD_BYTES_MAX};
    struct mr_reply_address address;
    *out = (struct rendering){.status = MR_OK};
    out->status = mr_request_decode(&out->request, record, &context, &address, &out->err);
    if (out->status == MR_OK)
        out->status = mr_chat_template_render(compiled, out->request, unix_seconds,
                                              out->request->arena, &out->rendered, &out->err);
}

/* ---- cases ---- */

static struct mr_text text_of(const struct mr_json_value *value, const char *name)
{
    struct mr_text text = {"", 0};
    mr_json_text(mr_json_get(value, name), &text);
    return text;
}

/* A file of cases: templates with their texts for records. */
struct cases {
    struct mr_special_texts special;
    uint64_t unix_seconds;
};

static int check_case(const struct cases *cases, const struct mr_json_value *group,
                      const struct mr_json_value *one)
{
    struct mr_chat_template *compiled;
    struct rendering got = {.status = MR_OK};
    bool refused = mr_json_get(one, "refused") != NULL;
    struct mr_text want = text_of(one, "expected"), name = text_of(group, "name");
    got.status =
        mr_chat_template_compile(&compiled, text_of(group, "template"), &cases->special, &got.err);
    if (got.status == MR_OK) render(&got, compiled, text_of(one, "record"), cases->unix_seconds);
    struct mr_text text = got.rendered.text;
    bool good = refused ? got.status != MR_OK : got.status == MR_OK && mr_text_equal(text, want);
    if (!good) {
        struct mr_text record = text_of(one, "record");
        printf("%.*s, record %.*s\n--- expected %s\n%.*s\n--- rendered: %s\n%.*s\n",
               (int)name.length, name.bytes, (int)record.length, record.bytes,
               refused ? "an error" : "", (int)want.length, want.bytes,
               got.status == MR_OK ? "" : got.err.detail, (int)text.length, text.bytes);
    }
    mr_request_destroy(got.request);
    mr_chat_template_destroy(compiled);
    return !good;
}

static int check_file(const char *path)
{
    const struct mr_json_limits limits = {1 << 27, 1 << 22, 16};
    struct mr_json *document;
    struct mr_error err;
    struct mr_text bytes = read_file(path);
    int failed = 0;
    size_t count = 0;
    if (mr_json_parse(&document, bytes, &limits, &err) != MR_OK) {
        printf("%s: %s\n", path, err.detail);
        return 1;
    }
    const struct mr_json_value *root = mr_json_root(document);
    const struct mr_json_value *groups = mr_json_get(root, "templates");
    struct cases cases = {.special.of = {text_of(root, "bos"), text_of(root, "eos")}};
    int64_t seconds = 0;
    mr_json_int(mr_json_get(root, "unix_seconds"), &seconds);
    cases.unix_seconds = (uint64_t)seconds;
    for (size_t i = 0; i < mr_json_count(groups); i++) {
        const struct mr_json_value *group = mr_json_at(groups, i);
        const struct mr_json_value *list = mr_json_get(group, "cases");
        for (size_t k = 0; k < mr_json_count(list); k++, count++)
            failed += check_case(&cases, group, mr_json_at(list, k));
    }
    printf("%s: %zu cases, %d differ\n", path, count, failed);
    mr_json_destroy(document);
    free((char *)(uintptr_t)bytes.bytes);
    return failed || !count;
}

/* ---- one template, many records ---- */

static void print_ids(const struct mr_tokenizer *tokenizer, const struct mr_rendered *rendered)
{
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    struct mr_id_list list = {.max = rendered->text.length + 16};
    struct mr_encode_options options = {
        .parse_special = true, .barred = rendered->user, .barred_count = rendered->user_count};
    struct mr_error err = {0};
    list.ids = calloc(list.max, sizeof *list.ids);
    if (mr_tokenizer_encode(tokenizer, scratch, rendered->text, options, &list, &err) != MR_OK)
        list.count = 0;
    for (size_t i = 0; i < list.count; i++)
        printf("%u ", list.ids[i]);
    free(list.ids);
    mr_tokenizer_scratch_destroy(scratch);
}

static void print_rendering(const struct rendering *one, const struct mr_tokenizer *tokenizer)
{
    const struct mr_rendered *rendered = &one->rendered;
    printf("%s\t", mr_status_name(one->status));
    for (const char *reason = one->err.detail; *reason && one->status != MR_OK; reason++)
        putchar((unsigned char)*reason < ' ' ? ' ' : *reason);
    putchar('\t');
    for (size_t i = 0; i < rendered->text.length; i++)
        printf("%02x", (unsigned char)rendered->text.bytes[i]);
    putchar('\t');
    for (size_t i = 0; i < rendered->user_count; i++)
        printf("%zu %zu ", rendered->user[i].start, rendered->user[i].end);
    putchar('\t');
    if (tokenizer && one->status == MR_OK) print_ids(tokenizer, rendered);
    putchar('\n');
}

static int print_records(char **args, int count)
{
    struct mr_text source = read_file(args[0]), records = read_file(args[1]);
    struct mr_tokenizer *tokenizer = NULL;
    struct mr_chat_template *compiled;
    struct mr_error err = {0};
    if (count > 3 && mr_tokenizer_from_json(&tokenizer, read_file(args[3]), (struct mr_text){"", 0},
                                            &err) != MR_OK) {
        fprintf(stderr, "%s\n", err.detail);
        return 2;
    }
    const struct mr_special_texts special = {.of = {{"<s>", 3}, {"</s>", 4}}};
    enum mr_status status = mr_chat_template_compile(&compiled, source, &special, &err);
    for (const char *at = records.bytes; *at;) {
        size_t length = strcspn(at, "\n");
        struct rendering one = {.status = status, .err = err};
        if (status == MR_OK)
            render(&one, compiled, (struct mr_text){at, length}, strtoull(args[2], NULL, 10));
        print_rendering(&one, tokenizer);
        mr_request_destroy(one.request);
        at += length + 1;
    }
    mr_chat_template_destroy(compiled);
    mr_tokenizer_destroy(tokenizer);
    free((char *)(uintptr_t)source.bytes);
    free((char *)(uintptr_t)records.bytes);
    return 0;
}

int main(int argc, char **argv)
{
    int failed = 0;
    if (argc > 3) return print_records(argv + 1, argc - 1);
    for (size_t i = 0; i < sizeof case_paths / sizeof *case_paths; i++)
        failed |= check_file(case_paths[i]);
    return failed;
}
