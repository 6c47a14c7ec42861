#include "worker/metrics/metric_text.h"

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
