/* Helpers of the tests of records: they decode a request written as JSON in both encodings. */
#ifndef MR_TESTS_CODEC_RECORDS_H
#define MR_TESTS_CODEC_RECORDS_H

#include "codec/records/request_decode.h"
#include "codec/wire/document.h"
#include "codec/wire/writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEST_NOW_MS ((int64_t)1750000000000)

static inline struct mr_text text_of(const char *text)
{
    return (struct mr_text){text, strlen(text)};
}

static inline struct mr_request_context test_context(void)
{
    return (struct mr_request_context){.key = {"", 0},
                                       .fallback_id = {"millrace.requests/3/41", 22},
                                       .content_type = {"", 0},
                                       .timestamp_ms = TEST_NOW_MS - 500,
                                       .now_ms = TEST_NOW_MS,
                                       .default_max_tokens = 256,
                                       .record_bytes_max = MR_RECORD_BYTES_MAX};
}

/* The record of this JSON text in msgpack; the caller frees its bytes. */
static inline struct mr_text msgpack_of(const char *json)
{
    struct mr_document *document;
    struct mr_writer writer;
    struct mr_error err;
    unsigned char *bytes;
    size_t length;
    assert_int_equal(mr_document_open(&document, text_of(json), MR_ENCODING_JSON, &err), MR_OK);
    mr_writer_init(&writer, MR_ENCODING_MSGPACK, (size_t)1 << 24);
    mr_writer_value(&writer, mr_document_root(document));
    assert_int_equal(mr_writer_take(&writer, &bytes, &length, &err), MR_OK);
    mr_document_close(document);
    return (struct mr_text){(char *)bytes, length};
}

/* The outputs of mr_request_decode. */
struct decoded {
    struct mr_request *request;
    enum mr_status status;
    struct mr_error err;
    struct mr_reply_address address;
};

static inline struct decoded decode_with(struct mr_text record,
                                         const struct mr_request_context *context)
{
    struct decoded decoded = {0};
    decoded.status =
        mr_request_decode(&decoded.request, record, context, &decoded.address, &decoded.err);
    assert_int_equal(decoded.status == MR_OK, decoded.request != NULL);
    if (decoded.status != MR_OK) assert_int_equal(decoded.err.status, decoded.status);
    return decoded;
}

static inline struct decoded decode(struct mr_text record)
{
    struct mr_request_context context = test_context();
    return decode_with(record, &context);
}

/* Decodes the record in JSON and in msgpack and asserts that both have the same status and id. */
static inline enum mr_status status_of_both(const char *json,
                                            const struct mr_request_context *context)
{
    struct mr_text msgpack = msgpack_of(json);
    struct decoded one = decode_with(text_of(json), context);
    struct decoded two = decode_with(msgpack, context);
    if (one.status != two.status)
        fail_msg("%s: JSON gives %s, msgpack %s", json, mr_status_name(one.status),
                 mr_status_name(two.status));
    assert_string_equal(one.address.id, two.address.id);
    assert_int_equal(one.address.id_readable, two.address.id_readable);
    mr_request_destroy(one.request);
    mr_request_destroy(two.request);
    free((char *)msgpack.bytes);
    return one.status;
}

#endif
