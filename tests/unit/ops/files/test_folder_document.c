/* A JSON file of a model folder is parsed, absent or refused by name. */
#include "ops/files/folder_document.h"

#include "text_folder.h"

static void a_file_is_parsed_absent_or_refused(void **state)
{
    (void)state;
    struct mr_folder_document document;
    struct mr_error err = {0};
    make_text_folder();
    assert_int_equal(mr_folder_document_open(&document, text_folder, "a.json", false, &err), MR_OK);
    assert_null(mr_folder_document_root(&document));
    mr_folder_document_close(&document);
    assert_int_not_equal(mr_folder_document_open(&document, text_folder, "a.json", true, &err),
                         MR_OK);
    write_text_file(NULL, "a.json", "{\"b\":1}");
    assert_int_equal(mr_folder_document_open(&document, text_folder, "a.json", true, &err), MR_OK);
    assert_int_equal(mr_json_count(mr_folder_document_root(&document)), 1);
    mr_folder_document_close(&document);
    write_text_file(NULL, "a.json", "{");
    assert_int_equal(mr_folder_document_open(&document, text_folder, "a.json", false, &err),
                     MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "a.json"));
    drop_text_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_file_is_parsed_absent_or_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
