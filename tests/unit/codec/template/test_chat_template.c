#include "codec/template/chat_template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *copy_of(const struct mr_rendered *rendered)
{
    return strndup(rendered->text.bytes, rendered->text.length);
}

static const struct mr_special_texts some_special = {
    .of = {[MR_EOS_TEXT] = {"</s>", 4}, [MR_PAD_TEXT] = {"<pad>", 5}}};

static enum mr_status render_source(const char *source, const char *content, struct mr_arena *arena,
                                    struct mr_rendered *rendered)
{
    struct mr_chat_template *compiled;
    struct mr_error err;
    struct mr_text text = {source, strlen(source)};
    const struct mr_data_member members[] = {
        {{"role", 4}, {.kind = MR_DATA_TEXT, .text = {"user", 4}}},
        {{"content", 7}, {.kind = MR_DATA_TEXT, .text = {content, strlen(content)}}}};
    const struct mr_data message = {.kind = MR_DATA_MAP, .map = {members, 2}};
    struct mr_request request = {.chat = {.messages = &message, .message_count = 1}};
    enum mr_status status = mr_chat_template_compile(&compiled, text, &some_special, &err);
    if (status != MR_OK) return status;
    status = mr_chat_template_render(compiled, &request, 0, arena, rendered, &err);
    mr_chat_template_destroy(compiled);
    return status;
}

static void special_tokens_have_their_names_and_absent_ones_are_undefined(void **state)
{
    (void)state;
    struct mr_arena *arena = mr_arena_create(1 << 20);
    struct mr_rendered rendered;
    static const char source[] = "{{ eos_token + pad_token }}{{ bos_token }}"
                                 "{{ unk_token is defined }}{{ pad_token is defined }}";
    assert_int_equal(render_source(source, "", arena, &rendered), MR_OK);
    assert_true(mr_text_is(rendered.text, "</s><pad>FalseTrue"));
    assert_int_equal(render_source("{{ mask_token + eos_token }}", "", arena, &rendered),
                     MR_INVALID_REQUEST);
    mr_arena_destroy(arena);
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

/* Renders a message whose content is a list of a text, a map with text, and one with `last`. */
static enum mr_status render_parts(const char *source, const char *last, struct mr_arena *arena,
                                   struct mr_rendered *rendered)
{
    struct mr_chat_template *compiled;
    struct mr_error err;
    const struct mr_data_member second = {{"text", 4}, {.kind = MR_DATA_TEXT, .text = {"<b>", 3}}};
    const struct mr_data_member third = {{last, strlen(last)},
                                         {.kind = MR_DATA_TEXT, .text = {"c", 1}}};
    const struct mr_data parts[] = {{.kind = MR_DATA_TEXT, .text = {"a ", 2}},
                                    {.kind = MR_DATA_MAP, .map = {&second, 1}},
                                    {.kind = MR_DATA_MAP, .map = {&third, 1}}};
    const struct mr_data_member content = {{"content", 7},
                                           {.kind = MR_DATA_LIST, .list = {parts, 3}}};
    const struct mr_data message = {.kind = MR_DATA_MAP, .map = {&content, 1}};
    struct mr_request request = {.chat = {.messages = &message, .message_count = 1}};
    assert_int_equal(mr_chat_template_compile(&compiled, (struct mr_text){source, strlen(source)},
                                              &some_special, &err),
                     MR_OK);
    enum mr_status status = mr_chat_template_render(compiled, &request, 0, arena, rendered, &err);
    mr_chat_template_destroy(compiled);
    return status;
}

/* As in vLLM; a template that loops over a content gets the list. */
static void parts_are_joined_where_the_template_reads_a_text(void **state)
{
    (void)state;
    static const char text[] = "<u>{{ messages[0].content if messages[0].content is string }}";
    static const char loop[] = "{% for p in messages[0].content %}{{ p.text or p }}|{% endfor %}";
    struct mr_arena *arena = mr_arena_create(1 << 20);
    struct mr_rendered rendered;
    assert_int_equal(render_parts(text, "text", arena, &rendered), MR_OK);
    assert_true(mr_text_is(rendered.text, "<u>a \n<b>\nc"));
    assert_int_equal(rendered.user_count, 1);
    assert_int_equal(rendered.user[0].start, 3);
    assert_int_equal(render_parts(text, "refusal", arena, &rendered), MR_OK);
    assert_true(mr_text_is(rendered.text, "<u>a \n<b>\nc"));
    assert_int_equal(render_parts(text, "sound", arena, &rendered), MR_UNSUPPORTED_CONTENT);
    assert_int_equal(render_parts(loop, "sound", arena, &rendered), MR_OK);
    assert_true(mr_text_is(rendered.text, "a |<b>|{'sound': 'c'}|"));
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
        "{{ x | nofilter }}",
        "{{ x is notest }}",
        "{{ x | map('nofilter') }}",
        "{{ x | selectattr('a', 'notest') }}",
        "{{ nofunction() }}",
    };
    struct mr_arena *arena = mr_arena_create(1 << 20);
    struct mr_rendered rendered;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        assert_int_equal(render_source(broken[i], "", arena, &rendered), MR_BAD_FILE);
    }
    mr_arena_destroy(arena);
}

static void an_error_names_line_and_column(void **state)
{
    (void)state;
    static const struct {
        const char *source, *error;
    } broken[] = {
        {"{% if x %}{% endif %}\n  {{ y | nofilter }}", "line 2 column 10: unknown filter"},
        {"{{ 1\n  + }}", "line 2 column 5: expected an expression"},
        {"a\nb {{ 'x }}", "line 2 column 6: string"},
        {"\n{{ f(1) }}", "line 2 column 4: unknown function 'f'"},
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct mr_chat_template *compiled;
        struct mr_error err = {0};
        struct mr_text text = {broken[i].source, strlen(broken[i].source)};
        assert_int_equal(mr_chat_template_compile(&compiled, text, &some_special, &err),
                         MR_BAD_FILE);
        if (!strstr(err.detail, broken[i].error)) fail_msg("%s", err.detail);
    }
}

static void a_function_may_be_tested_before_it_is_called(void **state)
{
    (void)state;
    struct mr_arena *arena = mr_arena_create(1 << 20);
    struct mr_rendered rendered;
    const char *source =
        "{% if f is defined %}{{ f() }}{% endif %}{% set g = namespace %}{{ g() is "
        "defined }}{% macro h(k) %}{{ k('x=1') }}{% endmacro %}";
    assert_int_equal(render_source(source, "", arena, &rendered), MR_OK);
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
        "{{ messages[0]() }}",
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_tokens_have_their_names_and_absent_ones_are_undefined),
        cmocka_unit_test(every_line_end_is_a_newline),
        cmocka_unit_test(message_text_stays_marked),
        cmocka_unit_test(parts_are_joined_where_the_template_reads_a_text),
        cmocka_unit_test(an_invalid_template_is_rejected),
        cmocka_unit_test(an_error_names_line_and_column),
        cmocka_unit_test(a_function_may_be_tested_before_it_is_called),
        cmocka_unit_test(an_endless_template_is_stopped),
        cmocka_unit_test(a_small_arena_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
