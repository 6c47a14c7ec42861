/* rendering - runs a template without messages and compares its output. Only tests of this folder
 * include it. */
#ifndef MR_TESTS_UNIT_CODEC_TEMPLATE_RENDERING_H
#define MR_TESTS_UNIT_CODEC_TEMPLATE_RENDERING_H

#include "codec/template/chat_template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Asserts the output of source; expected NULL: compiling or rendering fails. */
static inline void assert_rendered(const char *source, const char *expected)
{
    struct mr_chat_template *compiled;
    struct mr_error err = {.detail = ""};
    struct mr_rendered rendered = {0};
    struct mr_request request = {.id = {"", 0}};
    struct mr_arena *arena = mr_arena_create(1 << 22);
    enum mr_status status = mr_chat_template_compile(
        &compiled, (struct mr_text){source, strlen(source)}, &(struct mr_special_texts){0}, &err);
    if (status == MR_OK)
        status = mr_chat_template_render(compiled, &request, 0, arena, &rendered, &err);
    if (!expected) assert_int_not_equal(status, MR_OK);
    if (expected && status != MR_OK) fail_msg("%s: %s", source, err.detail);
    if (expected && !mr_text_is(rendered.text, expected))
        fail_msg("%s: %.*s, not %s", source, (int)rendered.text.length, rendered.text.bytes,
                 expected);
    mr_chat_template_destroy(compiled);
    mr_arena_destroy(arena);
}

#endif
