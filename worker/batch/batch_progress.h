/* batch_progress - says on stderr how far a batch is: one line that is written again each second if
 * stderr is a terminal, a line of JSON every 10 seconds otherwise, and a summary at the end.
 *
 * Owner: one thread. Memory: the struct. Errors: none. */
#ifndef MR_WORKER_BATCH_BATCH_PROGRESS_H
#define MR_WORKER_BATCH_BATCH_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct mr_batch_progress_counts {
    uint64_t calls;            /* lines of the input that are not blank */
    uint64_t answered, failed; /* of these, in this and earlier runs */
    uint64_t in_flight;
    uint64_t tokens; /* generated in this run */
};

struct mr_batch_progress {
    FILE *out;
    bool is_terminal;
    uint64_t begun_ns, last_ns, next_ns;
    struct mr_batch_progress_counts begun, last; /* at begun_ns and last_ns */
    double calls_per_s, tokens_per_s;            /* smoothed; 0: unknown */
    bool is_shown; /* a line without its line feed is on the terminal */
};

void mr_batch_progress_init(struct mr_batch_progress *progress, FILE *out,
                            const struct mr_batch_progress_counts *counts, uint64_t now_ns);
/* Shows the counts if it is time to. */
void mr_batch_progress_show(struct mr_batch_progress *progress,
                            const struct mr_batch_progress_counts *counts, uint64_t now_ns);
/* Ends the line on the terminal, so that another text can follow. */
void mr_batch_progress_pause(struct mr_batch_progress *progress);
/* Writes the summary. errors: path of the error file. */
void mr_batch_progress_end(struct mr_batch_progress *progress,
                           const struct mr_batch_progress_counts *counts, const char *errors,
                           uint64_t now_ns);

#endif
