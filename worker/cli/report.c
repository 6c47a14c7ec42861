#include "worker/cli/report.h"

#include "codec/wire/json_writer.h"

#include <stdio.h>
#include <stdlib.h>

#define LINE_BYTES_MAX ((size_t)4096)

void mr_report(const struct mr_report *report, const char *verdict, const char *what,
               const char *text)
{
    struct mr_json_writer writer;
    char *bytes = NULL;
    size_t length = 0;
    if (!report->json) {
        printf("%-4s  %-8s %s\n", verdict, what, text);
        return;
    }
    mr_json_writer_init(&writer, LINE_BYTES_MAX);
    mr_json_begin_object(&writer);
    mr_json_name(&writer, "verdict");
    mr_json_put_string(&writer, verdict);
    mr_json_name(&writer, "what");
    mr_json_put_string(&writer, what);
    mr_json_name(&writer, "text");
    mr_json_put_string(&writer, text);
    mr_json_end(&writer);
    if (mr_json_writer_take(&writer, &bytes, &length, NULL) == MR_OK) puts(bytes);
    free(bytes);
}

void mr_report_failure(struct mr_report *report, const char *what, enum mr_exit code,
                       const char *text)
{
    mr_report(report, "FAIL", what, text);
    if (report->code == MR_EXIT_DONE) report->code = (int)code;
}
