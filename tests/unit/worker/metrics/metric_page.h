/* metric_page - the text of a page of metrics, and assertions on it for the tests of
 * worker/metrics. */
#ifndef MR_TESTS_METRIC_PAGE_H
#define MR_TESTS_METRIC_PAGE_H

#include "codec/records/result.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A stream that a module prints to; page_close returns the printed text, which the caller frees. */
struct page {
    FILE *out;
    char *text;
    size_t length;
};

static inline FILE *page_open(struct page *page)
{
    page->out = open_memstream(&page->text, &page->length);
    assert_non_null(page->out);
    return page->out;
}

static inline char *page_close(struct page *page)
{
    assert_int_equal(fclose(page->out), 0);
    return page->text;
}

/* Fails unless the page has this text at the beginning of a line. */
static inline void page_has(const char *text, const char *line)
{
    const char *found = strstr(text, line);
    if (!found || (found > text && found[-1] != '\n')) fail_msg("the page lacks: %s", line);
}

/* A result whose times differ from each other. */
static inline struct mr_result page_result(const struct mr_choice *choice)
{
    return (struct mr_result){.choices = choice,
                              .choice_count = 1,
                              .prompt_tokens = 100,
                              .queue_ms = 400,
                              .prefill_ms = 600,
                              .first_token_ms = 1000,
                              .total_ms = 3000};
}

#endif
