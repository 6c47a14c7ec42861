/* slice - the length of a thread's time slices, which decides how soon a thread that wakes gets a
 * core when all cores are busy.
 *
 * From Linux 6.12 on, a thread may request short time slices. Its share of the cores stays the
 * same, but when it wakes it does not wait until another thread's slice of 3 ms ends. Threads that
 * pass records on use short slices; the engine and its compute threads, which keep every core busy,
 * do not. So the records of one step are sent while the next step computes: measured on two cores,
 * 99.4 % of the records within 5 ms of their step instead of 96.1 %, at the same throughput. An
 * older kernel ignores the request. No privilege is needed.
 *
 * Threads: a call acts on the calling thread and on threads that it creates later. Memory, errors:
 *          none. */
#ifndef MR_WORKER_BASE_SLICE_H
#define MR_WORKER_BASE_SLICE_H

void mr_slice_short(void);
void mr_slice_usual(void);

#endif
