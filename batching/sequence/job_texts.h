/* job_texts - the part of a job (batching/sequence/job.h) that computes vectors or classes of texts
 * (batching/sequence/text_set.h).
 *
 * Threads: as for jobs. Memory: the job owns what is made. Errors: REJECT statuses, MR_NOMEM. */
#ifndef MR_BATCHING_SEQUENCE_JOB_TEXTS_H
#define MR_BATCHING_SEQUENCE_JOB_TEXTS_H

#include "batching/sequence/job.h"

/* Checks the tokens of a prompt or of one text. */
typedef enum mr_status mr_job_token_check(const struct mr_job_rules *rules, const uint32_t *ids,
                                          size_t count, struct mr_error *err);

/* True for the tasks embed, classify and rerank. */
bool mr_job_computes_texts(const struct mr_request *request);
/* Checks that the model has what the vectors or classes of a request need. */
enum mr_status mr_job_check_texts(const struct mr_job_rules *rules,
                                  const struct mr_request *request, struct mr_error *err);
/* Checks each text of the request. A text that cannot run gets an error of its own; the request
 * fails if no other text is left. */
enum mr_status mr_job_check_inputs(const struct mr_job_rules *rules, struct mr_request *request,
                                   mr_job_token_check *check, struct mr_error *err);
/* Makes a pooled hidden state for each sequence of the job, which begins with a text of its own. */
enum mr_status mr_job_begin_texts(struct mr_job *job, const struct mr_job_rules *rules,
                                  struct mr_error *err);
/* Makes the next text of job->texts the sequence's. False: all have begun. The sequence has no KV.
 */
bool mr_job_next_text(struct mr_job *job, struct mr_sequence *sequence);

#endif
