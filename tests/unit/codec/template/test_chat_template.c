/* Compares with the cases that tests/golden/make_templates.py made with the reference. With a path
 * as argument it reads another file of cases, for example of the templates of real models. */
#include "codec/template/chat_template.h"

#include "codec/wire/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *cases_path = "tests/golden/templates/cases.json";
/* inputs of fuzz_template, written by tests/fuzz/compare_templates.py */
static const char *fuzzed_path = "tests/golden/templates/fuzzed.json";

static char *read_file(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *length = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*length + 1);
    assert_int_equal(fread(bytes, 1, *length, file), *length);
    fclose(file);
    return bytes;
}

static struct mr_text text_of(const struct mr_json_value *value, const char *name)
{
    struct mr_text text = {"", 0};
    mr_json_text(mr_json_get(value, name), &text);
    return text;
}

static void fill_kwargs(const struct mr_json_value *object, struct mr_kwarg *kwargs,
                        struct mr_request *request)
{
    struct mr_json_member member = {0};
    while (mr_json_next(object, &member)) {
        struct mr_kwarg *kwarg = &kwargs[request->kwarg_count++];
        bool truth;
        kwarg->name = member.name;
        if (mr_json_bool(member.value, &truth)) {
            kwarg->kind = MR_SCALAR_BOOL;
            kwarg->integer = truth;
        } else if (mr_json_text(member.value, &kwarg->text)) {
            kwarg->kind = MR_SCALAR_TEXT;
        } else if (mr_json_int(member.value, &kwarg->integer)) {
            kwarg->kind = MR_SCALAR_INT;
        } else if (mr_json_number(member.value, &kwarg->number)) {
            kwarg->kind = MR_SCALAR_FLOAT;
        }
    }
    request->kwargs = kwargs;
}

static char *copy_of(const struct mr_rendered *rendered)
{
    return strndup(rendered->text.bytes, rendered->text.length);
}

static void check_case(const struct mr_json_value *one)
{
    struct mr_chat_template *compiled;
    struct mr_error err = {0};
    struct mr_message messages[16] = {0};
    struct mr_kwarg kwargs[8] = {0};
    struct mr_request request = {.messages = messages};
    const struct mr_json_value *list = mr_json_get(one, "messages");
    struct mr_rendered rendered;
    int64_t seconds = 0;
    for (size_t i = 0; i < mr_json_count(list); i++) {
        messages[i].role = text_of(mr_json_at(list, i), "role");
        messages[i].content = text_of(mr_json_at(list, i), "content");
    }
    request.message_count = mr_json_count(list);
    fill_kwargs(mr_json_get(one, "kwargs"), kwargs, &request);
    mr_json_int(mr_json_get(one, "unix_seconds"), &seconds);
    if (mr_chat_template_compile(&compiled, text_of(one, "template"), text_of(one, "bos"),
                                 text_of(one, "eos"), &err) != MR_OK) {
        fail_msg("%s: %s", text_of(one, "name").bytes, err.detail);
    }
    struct mr_arena *arena = mr_arena_create(1 << 22);
    enum mr_status status =
        mr_chat_template_render(compiled, &request, (uint64_t)seconds, arena, &rendered, &err);
    if (mr_json_get(one, "refused")) {
        assert_int_equal(status, MR_INVALID_REQUEST);
    } else {
        if (status != MR_OK) fail_msg("%s: %s", text_of(one, "name").bytes, err.detail);
        char *all = copy_of(&rendered);
        if (strcmp(all, text_of(one, "expected").bytes) != 0) {
            fail_msg("%s\n--- expected\n%s\n--- rendered\n%s", text_of(one, "name").bytes,
                     text_of(one, "expected").bytes, all);
        }
        free(all);
    }
    mr_arena_destroy(arena);
    mr_chat_template_destroy(compiled);
}

static void check_file(const char *path)
{
    const struct mr_json_limits limits = {1 << 27, 1 << 22, 16};
    struct mr_json *document;
    struct mr_error err;
    size_t length;
    char *bytes = read_file(path, &length);
    struct mr_text text = {bytes, length};
    assert_int_equal(mr_json_parse(&document, text, &limits, &err), MR_OK);
    size_t count = mr_json_count(mr_json_root(document));
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++)
        check_case(mr_json_at(mr_json_root(document), i));
    print_message("%s: %zu cases equal\n", path, count);
    mr_json_destroy(document);
    free(bytes);
}

static void output_equals_that_of_the_reference(void **state)
{
    (void)state;
    check_file(cases_path);
    check_file(fuzzed_path);
}

static enum mr_status render_source(const char *source, const char *content, struct mr_arena *arena,
                                    struct mr_rendered *rendered)
{
    struct mr_chat_template *compiled;
    struct mr_error err;
    struct mr_text empty = {"", 0}, text = {source, strlen(source)};
    struct mr_message message = {{"user", 4}, {content, strlen(content)}};
    struct mr_request request = {.messages = &message, .message_count = 1};
    enum mr_status status = mr_chat_template_compile(&compiled, text, empty, empty, &err);
    if (status != MR_OK) return status;
    status = mr_chat_template_render(compiled, &request, 0, arena, rendered, &err);
    mr_chat_template_destroy(compiled);
    return status;
}

static void every_line_end_is_a_newline(void **state)
{
    (void)state;
    struct mr_arena *arena = mr_arena_create(1 << 20);
    struct mr_rendered rendered;
    assert_int_equal(render_source("a\r\nb\rc{{ '\r' }}\r", "", arena, &rendered), MR_OK);
    char *all = copy_of(&rendered);
    assert_string_equal(all, "a\nb\nc\n");
    free(all);
    mr_arena_destroy(arena);
}

static void message_text_stays_marked(void **state)
{
    (void)state;
    struct mr_arena *arena = mr_arena_create(1 << 20);
    struct mr_rendered rendered;
    const char *source = "<a>{{ (' ' + messages[0].content.replace('x', 'y') | trim)[1:] }}<b>";
    assert_int_equal(render_source(source, "0x<a> ", arena, &rendered), MR_OK);
    /* y is text of the template, the rest is text of the message */
    char *all = copy_of(&rendered);
    assert_string_equal(all, "<a>0y<a><b>");
    assert_int_equal(rendered.user_count, 2);
    assert_true(rendered.user[0].start > 0);
    assert_true(rendered.user[1].start > rendered.user[0].end);
    assert_int_equal(rendered.user[1].end - rendered.user[1].start, 3);
    assert_true(rendered.user[1].end < rendered.text.length);
    free(all);
    mr_arena_destroy(arena);
}

static void an_invalid_template_is_rejected(void **state)
{
    (void)state;
    static const char *const broken[] = {
        "{% if x %}",
        "{{ x ",
        "{{ 'abc }}",
        "{% for x %}{% endfor %}",
        "{{ x | }}",
        "{% unknown %}",
        "{% endif %}",
        "{# never closed",
        "{{ 1 + }}",
        "{{ a[ }}",
        "{% set = 3 %}",
        "{{ ) }}",
        "{% macro m %}{% endmacro %}",
        "{{ @ }}",
    };
    struct mr_arena *arena = mr_arena_create(1 << 20);
    struct mr_rendered rendered;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        assert_int_equal(render_source(broken[i], "", arena, &rendered), MR_BAD_FILE);
    }
    mr_arena_destroy(arena);
}

static void an_endless_template_is_stopped(void **state)
{
    (void)state;
    static const char *const runaway[] = {
        "{% for a in range(99999) %}{% for b in range(99999) %}{{ b }}{% endfor %}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ 'x' * 999999999 }}",
        "{{ raise_exception('no') }}",
        "{{ nothing.attribute }}",
        "{{ 'a' + 1 }}",
        "{{ 1 // 0 }}",
        "{{ 9223372036854775807 + 1 }}",
        "{{ messages | nofilter }}",
        "{{ messages is notest }}",
        "{{ messages() }}",
        "{{ range(1, 5, 0) }}",
    };
    struct mr_rendered rendered;
    for (size_t i = 0; i < sizeof runaway / sizeof *runaway; i++) {
        struct mr_arena *arena = mr_arena_create(1 << 25);
        assert_int_equal(render_source(runaway[i], "", arena, &rendered), MR_INVALID_REQUEST);
        mr_arena_destroy(arena);
    }
}

static void a_small_arena_is_an_error(void **state)
{
    (void)state;
    struct mr_rendered rendered;
    for (size_t bytes = 0; bytes < 6000; bytes += 48) {
        struct mr_arena *arena = mr_arena_create(bytes);
        enum mr_status status = render_source(
            "{% for m in messages %}{{ m.content | upper }}{% endfor %}", "abc", arena, &rendered);
        assert_true(status == MR_OK || status == MR_INVALID_REQUEST);
        mr_arena_destroy(arena);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_equals_that_of_the_reference),
        cmocka_unit_test(every_line_end_is_a_newline),
        cmocka_unit_test(message_text_stays_marked),
        cmocka_unit_test(an_invalid_template_is_rejected),
        cmocka_unit_test(an_endless_template_is_stopped),
        cmocka_unit_test(a_small_arena_is_an_error),
    };
    if (argc > 1) cases_path = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
