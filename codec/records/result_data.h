/* result_data - the member `data` of a result record: vectors, probabilities of labels, or scores
 * of documents; and how vectors are written.
 *
 * Threads: any (pure functions). Memory: everything is borrowed. Errors: _put returns false if
 * there is no memory. */
#ifndef MR_CODEC_RECORDS_RESULT_DATA_H
#define MR_CODEC_RECORDS_RESULT_DATA_H

#include "codec/records/inputs.h"

struct mr_writer; /* codec/wire/writer.h */

/* The result of one text of a request of task embed, classify or rerank: a vector, a probability
 * for each label, or one score. */
struct mr_data_entry {
    uint32_t index; /* of the text in the request */
    const float *numbers;
    size_t count;         /* 0: the text has an error */
    enum mr_status error; /* MR_OK: none */
    const char *message;
};

enum mr_data_form { MR_DATA_VECTORS, MR_DATA_CLASSES, MR_DATA_RANKS };

struct mr_result_data {
    const struct mr_data_entry *entries; /* [count] */
    size_t count;                        /* 0: the request has no such results, or did not end */
    enum mr_data_form form;
    const struct mr_text *labels; /* [label_count] of the classes */
    size_t label_count;
    /* [by index] pairs whose second texts the ranks repeat; NULL: they repeat none */
    const struct mr_input *documents;
    bool base64; /* vectors are written as the base64 text of their floats */
};

/* Writes the member `embedding`: an array, or the base64 text of 32-bit floats, little-endian. */
bool mr_result_vector_put(struct mr_writer *writer, const float *vector, size_t count, bool base64);
/* Writes the member `error` of a result or of an entry. message may be NULL. */
void mr_result_error_put(struct mr_writer *writer, enum mr_status error, const char *message,
                         bool retryable);
/* Writes the member `data`. count is above 0. */
bool mr_result_data_put(struct mr_writer *writer, const struct mr_result_data *data);

#endif
