/* bench_chart - a line chart as SVG, for a page that loads no script, font or file. Colours come
 * from the page's style sheet (bench_page.c), so that they follow the reader's light or dark
 * setting.
 *
 * Threads: any. Memory: none. Errors: those of the stream, which the caller checks. */
#ifndef MR_WORKER_BENCH_BENCH_CHART_H
#define MR_WORKER_BENCH_BENCH_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define MR_BENCH_CHART_LINES_MAX ((size_t)4)

struct mr_bench_line {
    const char *name;
    const double *values; /* [count]; NaN: no value, the line has a gap there */
};

struct mr_bench_chart {
    const char *title, *x_name, *y_name; /* plain texts, with units; escaped by the chart */
    const double *x;                     /* [count], increasing */
    size_t count;
    bool marks; /* a mark at every value; for few values */
    struct mr_bench_line lines[MR_BENCH_CHART_LINES_MAX];
    size_t line_count;
    double limit; /* a dashed horizontal line; 0: none */
};

void mr_bench_chart_print(const struct mr_bench_chart *chart, FILE *out);
/* Prints text with the special characters of HTML escaped. */
void mr_bench_chart_text(const char *text, FILE *out);

#endif
