#include "codec/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LINE_BYTES 1024

/* The expression as the content of a JSON string. Source text has no control characters. */
static void escape(const char *expression, char *out, size_t size)
{
    size_t length = 0;
    for (; *expression && length + 3 < size; expression++) {
        if (*expression == '"' || *expression == '\\') out[length++] = '\\';
        out[length++] = *expression;
    }
    out[length] = '\0';
}

void mr_check_failed(const char *expression, const char *file, int line)
{
    char text[LINE_BYTES], escaped[LINE_BYTES / 2];
    int length;
    escape(expression, escaped, sizeof escaped);
    if (isatty(STDERR_FILENO))
        length =
            snprintf(text, sizeof text, "%s:%d: assertion failed: %s\n", file, line, expression);
    else
        length =
            snprintf(text, sizeof text,
                     "{\"level\":\"error\",\"msg\":\"assertion failed: %s\",\"file\":\"%.200s\","
                     "\"line\":%d}\n",
                     escaped, file, line);
    /* one write, so that lines of other threads do not mix with it */
    ssize_t written =
        write(STDERR_FILENO, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
    (void)written;
    abort();
}
