#include "worker/metrics/metric_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void mr_metric_put_head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void mr_metric_put_value(FILE *out, const char *name, const char *type, const char *help,
                         double value)
{
    mr_metric_put_head(out, name, type, help);
    fprintf(out, "%s %.17g\n", name, value);
}

void mr_metric_put_label(FILE *out, const char *name, const char *value)
{
    fprintf(out, "%s=\"", name);
    for (; *value; value++) {
        if (*value == '\\' || *value == '"') fputc('\\', out);
        if (*value == '\n')
            fputs("\\n", out);
        else
            fputc(*value, out);
    }
    fputc('"', out);
}

void mr_metric_put_histogram(const struct mr_histogram *histogram, const char *name,
                             const char *labels, FILE *out)
{
    const char *comma = labels[0] ? "," : "";
    const char *open = labels[0] ? "{" : "";
    const char *close = labels[0] ? "}" : "";
    uint64_t below = 0;
    for (uint32_t i = 0; i < histogram->bound_count; i++) {
        below += histogram->counts[i];
        fprintf(out, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name, labels, comma,
                histogram->bounds[i], below);
    }
    uint64_t count = below + histogram->counts[histogram->bound_count];
    fprintf(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, comma, count);
    fprintf(out, "%s_sum%s%s%s %.15g\n", name, open, labels, close, histogram->sum);
    fprintf(out, "%s_count%s%s%s %" PRIu64 "\n", name, open, labels, close, count);
}

enum mr_status mr_metric_append(char **text, size_t *length,
                                void (*print)(FILE *out, const void *stats), const void *stats,
                                struct mr_error *err)
{
    char *more = NULL;
    size_t more_length = 0;
    FILE *out = open_memstream(&more, &more_length);
    if (!out) return mr_fail(err, MR_NOMEM, "no memory for the metrics");
    print(out, stats);
    char *joined = fclose(out) == 0 ? realloc(*text, *length + more_length + 1) : NULL;
    if (!joined) {
        free(more);
        return mr_fail(err, MR_NOMEM, "no memory for the metrics");
    }
    memcpy(joined + *length, more, more_length + 1);
    *text = joined;
    *length += more_length;
    free(more);
    return MR_OK;
}
