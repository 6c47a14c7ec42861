/* result_data - writes the members `embedding` and `data` of a result record: vectors,
 * probabilities of labels, and scores of documents.
 *
 * Threads: any (pure functions). Memory: everything is borrowed. Errors: _put returns false if
 * there is no memory. */
#ifndef MR_CODEC_RECORDS_RESULT_DATA_H
#define MR_CODEC_RECORDS_RESULT_DATA_H

#include "codec/records/result.h"
#include "codec/wire/writer.h"

/* Number of members that _put writes. */
uint32_t mr_result_data_members(const struct mr_result *result);
bool mr_result_data_put(struct mr_writer *writer, const struct mr_result *result);

#endif
