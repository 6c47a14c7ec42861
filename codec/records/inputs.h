/* inputs - the texts of a request that has several: `input` of the tasks embed and classify, or the
 * pairs of a query and each document of task rerank. codec/records/request_inputs.h reads them,
 * worker/intake/inputs.h encodes them. One text that cannot be computed has an error of its own and
 * does not affect the others.
 *
 * Owner and memory: the request. Errors: none; values only. */
#ifndef MR_CODEC_RECORDS_INPUTS_H
#define MR_CODEC_RECORDS_INPUTS_H

#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_input {
    struct mr_text text;   /* bytes NULL: it came as token ids */
    struct mr_text second; /* the second text of a pair; bytes NULL: there is none */
    /* from the record, or set by intake, with the special tokens */
    const uint32_t *token_ids;
    size_t token_count;
    uint32_t second_begin; /* tokens from here on have token type 1; 0: none has */
    enum mr_status error;  /* MR_OK, or why this text cannot be computed; set by intake */
    const char *message;   /* of the error */
};

struct mr_inputs {
    struct mr_input *list; /* [count] */
    size_t count;          /* 0: the request has a prompt instead */
    size_t token_count;    /* of all texts without an error; set by intake */
    struct mr_text query;  /* task rerank */
    uint32_t top;          /* task rerank: most entries of the result; 0: all */
    bool return_documents; /* task rerank: the result repeats the documents */
    bool raw;              /* tasks classify and rerank: no activation function after the head */
};

#endif
