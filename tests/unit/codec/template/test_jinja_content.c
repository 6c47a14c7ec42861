#include "codec/template/jinja_content.h"

#include "codec/template/chat_template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void assert_reads(const char *body, bool parts)
{
    char source[1024];
    struct mr_chat_template *compiled;
    struct mr_error err = {.detail = ""};
    snprintf(source, sizeof source, "{%% for message in messages %%}%s{%% endfor %%}", body);
    if (mr_chat_template_compile(&compiled, (struct mr_text){source, strlen(source)},
                                 &(struct mr_special_texts){0}, &err) != MR_OK)
        fail_msg("%s: %s", source, err.detail);
    if (mr_chat_template_reads_parts(compiled) != parts) fail_msg("%s", source);
    mr_chat_template_destroy(compiled);
}

static void a_template_that_loops_over_a_content_reads_parts(void **state)
{
    (void)state;
    assert_reads("{% for p in message.content %}{{ p.text }}{% endfor %}", true);
    assert_reads("{% for p in message['content'] | list if p.type %}{{ p }}{% endfor %}", true);
    assert_reads("{% for p in message.get('content')[1:] %}{{ p }}{% endfor %}", true);
    assert_reads(
        "{% set c = message.content or '' %}{% set d = c if true else [] %}"
        "{% if d is string %}{{ d }}{% else %}{% for p in d %}{{ p }}{% endfor %}{% endif %}",
        true);
    assert_reads("{% with c = message.content %}{% for p in c %}{{ p }}{% endfor %}{% endwith %}",
                 true);
    assert_reads("{% macro m(c) %}{% for p in c %}{{ p }}{% endfor %}{% endmacro %}"
                 "{% macro n(d) %}{{ m(c=d) }}{% endmacro %}{{ n(message.content) }}",
                 true);
    assert_reads("{{ message.content | map(attribute='text') | join }}", true);
    assert_reads("{{ message.content | selectattr('type', 'equalto', 'text') | first }}", true);
}

static void other_templates_read_a_text(void **state)
{
    (void)state;
    assert_reads("{{ message.content }}", false);
    assert_reads("{{ message['content'] | trim }}", false);
    assert_reads("{% set c = message.content if message.content is string else '' %}{{ c }}",
                 false);
    assert_reads("{% for t in message.tool_calls %}{{ t.name }}{% endfor %}{{ message.content }}",
                 false);
    assert_reads("{% for line in message.content.split('x') %}{{ line }}{% endfor %}", false);
    assert_reads("{% macro m(c) %}{% for p in c %}{{ p }}{% endfor %}{% endmacro %}"
                 "{{ m(message.tool_calls) }}{{ message.content }}",
                 false);
    assert_reads("{% set c = c %}{% for p in c %}{{ p }}{% endfor %}", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_template_that_loops_over_a_content_reads_parts),
        cmocka_unit_test(other_templates_read_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
