/* survey - reads the whole input of a batch before a line is sent: its digest, the number of its
 * lines, and the faults of each.
 *
 * Two lines with one custom_id are a fault of the second. Found by sorting 96 bits of the SHA-256
 * of each custom_id.
 *
 * Owner:  one thread. Memory: while it runs, 16 bytes for each line; then a bit for each line and 8
 *         bytes for each line with the custom_id of another one.
 * Errors: those of worker/batch/lines.h. */
#ifndef MR_WORKER_BATCH_SURVEY_H
#define MR_WORKER_BATCH_SURVEY_H

#include "worker/batch/bits.h"
#include "worker/batch/item.h"
#include "worker/batch/lines.h"

#define MR_SURVEY_LINES_MAX ((uint64_t)UINT32_MAX)

struct mr_survey_repeat {
    uint32_t line, first; /* a line, and the first one with its custom_id */
};

struct mr_survey {
    unsigned char digest[MR_SHA256_BYTES]; /* of the decompressed file */
    uint64_t line_count;                   /* number of the last line */
    uint64_t call_count;                   /* lines that are not blank */
    struct mr_bits invalid;
    struct mr_survey_repeat *repeats; /* [repeat_count] by line */
    size_t repeat_count;
    uint64_t warnings; /* members of all lines that have no effect */
};

/* Called with each fault, in the order of the lines; those of repeated custom_ids come last. */
typedef void mr_survey_fault(void *context, uint64_t line, const struct mr_error *fault);

struct mr_survey_options {
    struct mr_unpacked *file;
    size_t line_bytes;                       /* longest line that is read whole */
    const struct mr_batch_item_rules *rules; /* NULL: only digest and counts are determined */
    mr_survey_fault *fault;
    void *context;
};

enum mr_status mr_survey_run(struct mr_survey *survey, const struct mr_survey_options *options,
                             struct mr_error *err);
void mr_survey_destroy(struct mr_survey *survey);
/* Determines the fault of an invalid line again, and opens the item, which the caller closes. */
enum mr_status mr_survey_fault_of(const struct mr_survey *survey, const struct mr_line *line,
                                  const struct mr_batch_item_rules *rules,
                                  struct mr_batch_item *item, size_t *warnings,
                                  struct mr_error *err);

#endif
