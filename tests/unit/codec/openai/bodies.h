/* Documents and responses for the tests of codec/openai. */
#ifndef TESTS_UNIT_CODEC_OPENAI_BODIES_H
#define TESTS_UNIT_CODEC_OPENAI_BODIES_H

#include "codec/openai/response.h"
#include "codec/wire/document.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline struct mr_document *open_json(const char *text)
{
    struct mr_document *document;
    assert_int_equal(
        mr_document_open(&document, (struct mr_text){text, strlen(text)}, MR_ENCODING_JSON, NULL),
        MR_OK);
    return document;
}

static inline char *respond(enum mr_openai_endpoint endpoint, const char *request,
                            const char *result)
{
    struct mr_document *asked = open_json(request), *answered = open_json(result);
    struct mr_openai_answer answer = {.endpoint = endpoint,
                                      .id = {"7", 1},
                                      .created_s = 1700000000,
                                      .request = mr_document_root(asked),
                                      .result = mr_document_root(answered)};
    struct mr_json_writer writer;
    char *body;
    size_t length;
    mr_json_writer_init(&writer, 1 << 20);
    mr_openai_put_response(&writer, &answer);
    assert_int_equal(mr_json_writer_take(&writer, &body, &length, NULL), MR_OK);
    mr_document_close(asked);
    mr_document_close(answered);
    return body;
}

#endif
