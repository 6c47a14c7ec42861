/* tokenizer_cases - small tokenizer files, and assertions on the ids that a tokenizer gives. */
#ifndef MR_TESTS_TOKENIZER_CASES_H
#define MR_TESTS_TOKENIZER_CASES_H

#include "codec/tokenizer_files/tokenizer_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline struct mr_text text_of(const char *string)
{
    return (struct mr_text){string, strlen(string)};
}

#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"
#define VOCAB                                                                                      \
    "{\"a\":0,\"b\":1,\"\u0120\":2,\"ab\":3,\"\u0120a\":4,\"<s>\":5,\"\u00c3\":6,\"\u00a9\":7}"
#define MODEL(rest)                                                                                \
    "{\"type\":\"BPE\"," rest "\"vocab\":" VOCAB ",\"merges\":[\"a b\",[\"\u0120\",\"a\"]]}"
#define ADDED(rest) "[{\"id\":5,\"content\":\"<s>\",\"special\":true}" rest "]"
#define TEMPLATE                                                                                   \
    "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},"            \
    "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[5]}}}"
#define FILE_OF(added, normalizer, pre, post, decoder, model)                                      \
    "{\"version\":\"1.0\",\"added_tokens\":" added ",\"normalizer\":" normalizer                   \
    ",\"pre_tokenizer\":" pre ",\"post_processor\":" post ",\"decoder\":" decoder                  \
    ",\"model\":" model "}"
#define PLAIN FILE_OF(ADDED(""), "null", BYTE_LEVEL, TEMPLATE, BYTE_LEVEL, MODEL(""))

static inline struct mr_tokenizer *load(const char *json, const char *config)
{
    struct mr_tokenizer *tokenizer;
    struct mr_error err = {.detail = ""};
    if (mr_tokenizer_from_json(&tokenizer, text_of(json), text_of(config), &err) != MR_OK)
        fail_msg("%s", err.detail);
    return tokenizer;
}

/* Asserts the ids of text, written as "1 2 3". */
static inline void assert_ids(const struct mr_tokenizer *tokenizer, const char *text,
                              struct mr_encode_options options, const char *want)
{
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    uint32_t ids[64];
    struct mr_id_list list = {.ids = ids, .max = 64};
    struct mr_error err;
    assert_int_equal(mr_tokenizer_encode(tokenizer, scratch, text_of(text), options, &list, &err),
                     MR_OK);
    char got[256] = "";
    for (size_t i = 0; i < list.count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%u", i ? " " : "", ids[i]);
    assert_string_equal(got, want);
    mr_tokenizer_scratch_destroy(scratch);
}

static const struct mr_encode_options plain = {.parse_special = true};
static const struct mr_encode_options framed = {.add_special = true, .parse_special = true};
static const struct mr_encode_options unread = {0};

#endif
