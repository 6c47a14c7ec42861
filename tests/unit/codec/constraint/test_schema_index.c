#include "codec/constraint/schema_index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct mr_text text_of(const char *text)
{
    return (struct mr_text){text, strlen(text)};
}

static void assert_resolves(struct mr_expr_builder *builder, const char *base,
                            const char *reference, const char *want)
{
    struct mr_text uri = mr_schema_resolve_uri(builder, text_of(base), text_of(reference));
    if (uri.length != strlen(want) || memcmp(uri.bytes, want, uri.length) != 0)
        fail_msg("%s: %.*s, not %s", reference, (int)uri.length, uri.bytes, want);
}

/* The examples of RFC 3986, sections 5.4.1 and 5.4.2, of references without fragment. */
static void references_resolve_as_the_rfc_says(void **state)
{
    (void)state;
    static const char *const examples[][2] = {
        {"g:h", "g:h"},
        {"g", "http://a/b/c/g"},
        {"./g", "http://a/b/c/g"},
        {"g/", "http://a/b/c/g/"},
        {"/g", "http://a/g"},
        {"//g", "http://g"},
        {"?y", "http://a/b/c/d;p?y"},
        {"g?y", "http://a/b/c/g?y"},
        {";x", "http://a/b/c/;x"},
        {"", "http://a/b/c/d;p?q"},
        {".", "http://a/b/c/"},
        {"..", "http://a/b/"},
        {"../g", "http://a/b/g"},
        {"../../g", "http://a/g"},
        {"../../../g", "http://a/g"},
        {"/./g", "http://a/g"},
        {"g.", "http://a/b/c/g."},
        {"./../g", "http://a/b/g"},
        {"g/./h", "http://a/b/c/g/h"},
        {"g/../h", "http://a/b/c/h"},
    };
    struct mr_expr_builder builder;
    assert_int_equal(mr_expr_builder_init(&builder, NULL), MR_OK);
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        assert_resolves(&builder, "http://a/b/c/d;p?q", examples[i][0], examples[i][1]);
    mr_expr_builder_drop(&builder);
}

static void resources_and_anchors_are_found(void **state)
{
    (void)state;
    static const char schema[] = "{\"$id\":\"http://x/root\",\"$defs\":{"
                                 "\"a\":{\"$id\":\"item\",\"$anchor\":\"here\",\"$ref\":\"root\"},"
                                 "\"b\":{\"$id\":\"twice\"},\"c\":{\"$id\":\"twice\"}},"
                                 "\"default\":{\"$id\":\"data\"}}";
    struct mr_expr_builder builder;
    struct mr_json *document = NULL;
    const struct mr_json_limits limits = {4096, 100, 16};
    static struct mr_schema_index index;
    assert_int_equal(mr_expr_builder_init(&builder, NULL), MR_OK);
    assert_int_equal(mr_json_parse(&document, text_of(schema), &limits, NULL), MR_OK);
    assert_true(mr_schema_index_build(&index, &builder, document));
    uint32_t item = mr_schema_index_resource(&index, text_of("http://x/item"));
    assert_true(item < index.resource_count);
    assert_true(mr_schema_index_anchor(&index, item, text_of("here")) < index.anchor_count);
    assert_int_equal(mr_schema_index_anchor(&index, 0, text_of("here")), MR_SCHEMA_NO_ANCHOR);
    assert_int_equal(mr_schema_index_resource(&index, text_of("http://x/twice")),
                     MR_SCHEMA_AMBIGUOUS);
    /* the value of `default` is data, not a schema */
    assert_int_equal(mr_schema_index_resource(&index, text_of("http://x/data")),
                     MR_SCHEMA_NO_ANCHOR);
    const struct mr_json_value *node = index.resources[item].nodes[0];
    assert_non_null(mr_schema_index_find(&index, node));
    assert_null(mr_schema_index_find(&index, index.resources[0].nodes[0]));
    mr_json_destroy(document);
    mr_expr_builder_drop(&builder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(references_resolve_as_the_rfc_says),
        cmocka_unit_test(resources_and_anchors_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
