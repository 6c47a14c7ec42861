/* check - assertions that stay on in release builds.
 *
 * MR_ASSERT states what this program's own code guarantees; data from outside is validated and
 * answered with a status instead. Unit tests link their own mr_check_failed
 * (tests/unit/check_cmocka.c), which reaches cmocka's mock_assert, so that a test can prove that
 * misuse is caught. */
#ifndef MR_CODEC_CHECK_H
#define MR_CODEC_CHECK_H

/* Prints the place and aborts. Threads: any. Does not return. */
_Noreturn void mr_check_failed(const char *expression, const char *file, int line);

#define MR_ASSERT(expression)                                                                      \
    ((expression) ? (void)0 : mr_check_failed(#expression, __FILE__, __LINE__))

#endif
