/* fake_request - requests and a tokenizer in memory, for tests of batching.
 *
 * Owner: the test. Memory: a request's own arena; a tokenizer of MR_FAKE_VOCABULARY ids in which id
 * 0 is the end token and the others are one byte each. */
#ifndef MR_TESTS_FAKES_FAKE_REQUEST_H
#define MR_TESTS_FAKES_FAKE_REQUEST_H

#include "codec/records/request.h"
#include "codec/tokenizer/tokenizer.h"

#define MR_FAKE_VOCABULARY 257u
#define MR_FAKE_END        0u

/* Greedy, 16 tokens, one choice, cached, streamed; every field may be changed before _submit. */
struct mr_request *mr_fake_request(const char *id, const uint32_t *tokens, uint32_t count);
/* Copies ids into the request's arena, for stop_token_ids and similar fields. */
uint32_t *mr_fake_ids(struct mr_request *request, const uint32_t *ids, uint32_t count);
struct mr_tokenizer *mr_fake_tokenizer(void);

#endif
