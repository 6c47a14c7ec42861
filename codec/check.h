/* check - assertions that stay on in release builds.
 *
 * MR_ASSERT checks conditions that millrace's own code must guarantee. Data from outside is
 * validated and an error is returned as a status instead. Unit tests link another mr_check_failed
 * (tests/unit/check_cmocka.c), which calls cmocka's mock_assert, so a test can show that an
 * assertion fails. */
#ifndef MR_CODEC_CHECK_H
#define MR_CODEC_CHECK_H

/* Prints expression, file and line to standard error and aborts: as text on a terminal, otherwise
 * as a JSON line like those of the worker's log (worker/base/log.h). Threads: any. */
_Noreturn void mr_check_failed(const char *expression, const char *file, int line);

#define MR_ASSERT(expression)                                                                      \
    ((expression) ? (void)0 : mr_check_failed(#expression, __FILE__, __LINE__))

#endif
