/* lock_delays - random pauses around every mutex of a program, so that a test of threads runs
 * through orders of events that a busy machine produces once in a thousand runs.
 *
 * The linker replaces pthread_mutex_lock and pthread_mutex_unlock in the programs that
 * CMakeLists.txt names. A pause comes before a lock and after an unlock: there, code that relies on
 * a fact which it read under an earlier lock is wrong.
 *
 * Threads: any; each has its own random numbers. Memory: none. Errors: none. */
#ifndef MR_TESTS_FAKES_LOCK_DELAYS_H
#define MR_TESTS_FAKES_LOCK_DELAYS_H

#include <stdbool.h>

/* Pauses are off until the first call. */
void lock_delays_set(bool on);

#endif
