/* metric_text - prints single lines of the Prometheus text format (version 0.0.4): a metric's HELP
 * and TYPE, a value, a label.
 *
 * Threads: any (no state). Memory: only _append allocates. Errors: those of the stream, which its
 * owner checks. */
#ifndef MR_WORKER_METRICS_METRIC_TEXT_H
#define MR_WORKER_METRICS_METRIC_TEXT_H

#include "codec/histogram.h"
#include "codec/status.h"

#include <stddef.h>
#include <stdio.h>

/* type: counter, gauge or histogram. */
void mr_metric_put_head(FILE *out, const char *name, const char *type, const char *help);
/* A metric without labels: its head and its value. */
void mr_metric_put_value(FILE *out, const char *name, const char *type, const char *help,
                         double value);
/* Appends the output of `print` to the page *text, a malloc'ed text of *length bytes; both are
 * updated. MR_NOMEM: they are unchanged. */
enum mr_status mr_metric_append(char **text, size_t *length,
                                void (*print)(FILE *out, const void *stats), const void *stats,
                                struct mr_error *err);
/* Prints the _bucket, _sum and _count lines of a histogram. labels: extra labels such as
 * "from=\"record\"", or "". */
void mr_metric_put_histogram(const struct mr_histogram *histogram, const char *name,
                             const char *labels, FILE *out);
/* One label, name="value", with backslash, quote and line feed escaped. */
void mr_metric_put_label(FILE *out, const char *name, const char *value);

#endif
