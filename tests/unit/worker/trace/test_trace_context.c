#include "worker/trace/trace_context.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define TRACE  "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"

static bool parse(struct mr_trace_context *context, const char *header)
{
    return mr_trace_context_parse(context, (struct mr_text){header, strlen(header)});
}

static void a_header_names_trace_parent_and_flag(void **state)
{
    (void)state;
    static const unsigned char parent[] = {0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7};
    struct mr_trace_context context;
    char hex[MR_TRACE_HEX_BYTES];
    assert_true(parse(&context, "00-" TRACE "-" PARENT "-01"));
    assert_true(context.sampled);
    assert_true(context.has_parent);
    assert_memory_equal(context.parent_id, parent, sizeof parent);
    mr_trace_context_hex(&context, hex);
    assert_string_equal(hex, TRACE);
    assert_true(parse(&context, "00-" TRACE "-" PARENT "-00"));
    assert_false(context.sampled);
    assert_true(parse(&context, "00-" TRACE "-" PARENT "-03"));
    assert_true(context.sampled);
    assert_true(parse(&context, "cc-" TRACE "-" PARENT "-01-what the future brings"));
    assert_true(parse(&context, "cc-" TRACE "-" PARENT "-01"));
}

static void a_header_that_is_not_valid_counts_as_absent(void **state)
{
    (void)state;
    static const char *const headers[] = {
        "",
        "00",
        "00-" TRACE "-" PARENT "-0",
        "00-" TRACE "-" PARENT "-0g",
        "00-" TRACE "-" PARENT "-01-",
        "00-" TRACE "-" PARENT "-01x",
        "cc-" TRACE "-" PARENT "-01x",
        "ff-" TRACE "-" PARENT "-01",
        "0x-" TRACE "-" PARENT "-01",
        "00_" TRACE "-" PARENT "-01",
        "00-" TRACE "_" PARENT "-01",
        "00-" TRACE "-" PARENT "_01",
        "00-00000000000000000000000000000000-" PARENT "-01",
        "00-" TRACE "-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473z-" PARENT "-01",
    };
    struct mr_trace_context context = {.sampled = true}, before = context;
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        assert_false(parse(&context, headers[i]));
        assert_memory_equal(&context, &before, sizeof context);
    }
    assert_false(mr_trace_context_parse(&context, (struct mr_text){NULL, 0}));
}

static void a_place_gives_the_same_ids_everywhere_and_another_place_others(void **state)
{
    (void)state;
    struct mr_trace_place place = {"requests", 3, 41, 1700000000000}, next = place, anew = place;
    struct mr_trace_context one, two;
    unsigned char id[MR_SPAN_ID_BYTES], other[MR_SPAN_ID_BYTES];
    next.offset++;
    anew.timestamp_ms++;
    mr_trace_context_make(&one, &place, 1);
    mr_trace_context_make(&two, &place, 1);
    assert_memory_equal(&one, &two, sizeof one);
    assert_true(one.sampled);
    assert_false(one.has_parent);
    mr_trace_context_make(&two, &next, 1);
    assert_memory_not_equal(one.trace_id, two.trace_id, MR_TRACE_ID_BYTES);
    mr_trace_context_make(&two, &anew, 1);
    assert_memory_not_equal(one.trace_id, two.trace_id, MR_TRACE_ID_BYTES);
    mr_trace_span_id(&one, &place, 1, 0, id);
    mr_trace_span_id(&one, &place, 1, 0, other);
    assert_memory_equal(id, other, sizeof id);
    mr_trace_span_id(&one, &place, 2, 0, other);
    assert_memory_not_equal(id, other, sizeof id);
    mr_trace_span_id(&one, &place, 1, 1, other);
    assert_memory_not_equal(id, other, sizeof id);
    mr_trace_span_id(&one, &next, 1, 0, other);
    assert_memory_not_equal(id, other, sizeof id);
}

static void the_ratio_is_the_share_of_sampled_traces(void **state)
{
    (void)state;
    static const double ratios[] = {0, 0.1, 0.5, 1};
    for (size_t i = 0; i < sizeof ratios / sizeof ratios[0]; i++) {
        unsigned sampled = 0;
        for (int64_t offset = 0; offset < 4000; offset++) {
            struct mr_trace_place place = {"requests", 0, offset, 1};
            struct mr_trace_context context;
            mr_trace_context_make(&context, &place, ratios[i]);
            sampled += context.sampled;
        }
        assert_in_range(sampled, (unsigned)(4000 * ratios[i] * 0.9),
                        (unsigned)(4000 * ratios[i] * 1.1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_names_trace_parent_and_flag),
        cmocka_unit_test(a_header_that_is_not_valid_counts_as_absent),
        cmocka_unit_test(a_place_gives_the_same_ids_everywhere_and_another_place_others),
        cmocka_unit_test(the_ratio_is_the_share_of_sampled_traces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
