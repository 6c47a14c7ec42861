/* report - prints the lines of millrace check and millrace topics: a verdict, a subject, a text; as
 * columns or as JSON objects, one a line.
 *
 * Owner: main thread. Memory: none. Errors: none. */
#ifndef MR_WORKER_CLI_REPORT_H
#define MR_WORKER_CLI_REPORT_H

#include "worker/serve/parts.h"

#include <stdbool.h>

struct mr_report {
    bool json;
    int code; /* exit code for the first failure; MR_EXIT_DONE: no failure yet */
};

/* Prints one line. verdict: "ok", "note", "warn", "new" or "FAIL". */
void mr_report(const struct mr_report *report, const char *verdict, const char *what,
               const char *text);
void mr_report_failure(struct mr_report *report, const char *what, enum mr_exit code,
                       const char *text);

#endif
