/* Token and result records for the tests of results and replies. */
#ifndef MR_TESTS_CODEC_ANSWERS_H
#define MR_TESTS_CODEC_ANSWERS_H

#include "records.h"

#include "codec/records/result.h"

static const uint32_t answer_ids[3] = {10, 11, 12};
/* the bytes of token 99 are not the text of " b" */
static const struct mr_token_logprob answer_top[2] = {{10, -0.25f, {" a", 2}, {NULL, 0}},
                                                      {99, -3.5f, {" b", 2}, {"\xe2\x82", 2}}};
static const struct mr_logprobs answer_logprobs[3] = {
    {{10, -0.25f, {" a", 2}, {NULL, 0}}, answer_top, 2},
    {{11, -1.5f, {"b", 1}, {NULL, 0}}, answer_top, 1},
    {{12, -2.0f, {"", 0}, {NULL, 0}}, NULL, 0}};

static inline struct mr_choice answer_choice(void)
{
    return (struct mr_choice){.finish = MR_FINISH_EOS,
                              .stopped_by = MR_FINISH_EOS,
                              .stop_token = MR_TOKEN_NONE,
                              .text = {"hello", 5},
                              .token_ids = answer_ids,
                              .token_count = 3,
                              .completion_tokens = 4};
}

static inline struct mr_result answer_result(const struct mr_choice *choices, size_t count)
{
    return (struct mr_result){.id = {"id-1", 4},
                              .attempt = 1,
                              .model = {"m", 1},
                              .worker = {"w-1", 3},
                              .choices = choices,
                              .choice_count = count,
                              .prompt_tokens = 20,
                              .cached_tokens = 5,
                              .cached_tokens_redis = 2,
                              .accepted_draft_tokens = 3,
                              .queue_ms = 1.25,
                              .prefill_ms = 10,
                              .first_token_ms = 12.5,
                              .total_ms = 99.0625,
                              .itl_mean_ms = 9.5,
                              .itl_max_ms = 20,
                              .prefill_chunks = 2,
                              .preemptions = 1,
                              .recomputed_tokens = 7,
                              .source_topic = {"millrace.requests", 17},
                              .source_partition = 3,
                              .source_offset = 41};
}

#endif
