/* The endpoint of a path and of a body. */
#include "bodies.h"

static void a_body_tells_its_endpoint(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        enum mr_openai_endpoint endpoint; /* ENDPOINTS: it does not */
    } bodies[] = {
        {"{\"messages\":[]}", MR_OPENAI_CHAT},
        {"{\"prompt\":\"a\"}", MR_OPENAI_COMPLETIONS},
        {"{\"prompt\":\"a\",\"task\":\"embed\"}", MR_OPENAI_EMBEDDINGS},
        {"{\"input\":\"a\",\"encoding_format\":\"float\"}", MR_OPENAI_EMBEDDINGS},
        {"{\"input\":[{\"role\":\"user\"}]}", MR_OPENAI_RESPONSES},
        {"{\"input\":\"a\",\"instructions\":\"b\"}", MR_OPENAI_RESPONSES},
        {"{\"query\":\"a\",\"documents\":[]}", MR_OPENAI_RERANK},
        {"{\"input\":\"a\"}", MR_OPENAI_ENDPOINTS},
        {"{}", MR_OPENAI_ENDPOINTS},
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct mr_document *document;
        enum mr_openai_endpoint found = MR_OPENAI_ENDPOINTS;
        const struct mr_text body = {bodies[i].body, strlen(bodies[i].body)};
        assert_int_equal(mr_document_open(&document, body, MR_ENCODING_JSON, NULL), MR_OK);
        const bool told = mr_openai_guess(mr_document_root(document), &found);
        assert_int_equal(found, bodies[i].endpoint);
        assert_int_equal(told, bodies[i].endpoint != MR_OPENAI_ENDPOINTS);
        mr_document_close(document);
    }
    enum mr_openai_endpoint found;
    assert_false(mr_openai_find((struct mr_text){"/v1/images", 10}, &found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_tells_its_endpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
