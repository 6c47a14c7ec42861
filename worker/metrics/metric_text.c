#include "worker/metrics/metric_text.h"

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
