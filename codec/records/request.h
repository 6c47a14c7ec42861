/* request - one request of a producer, decoded and validated. docker/asyncapi.yaml describes the
 * record. codec/records/request_decode.h makes it from a record, codec/records/result.h has the
 * answers.
 *
 * Owner:  intake creates a request, the engine owns it while it runs, publish destroys it. Only one
 *         thread uses a request at a time.
 * Memory: the request and everything it points to are in its arena; _destroy frees the arena.
 * Errors: _create returns NULL if there is no memory. */
#ifndef MR_CODEC_RECORDS_REQUEST_H
#define MR_CODEC_RECORDS_REQUEST_H

#include "codec/arena.h"
#include "codec/constraint/constraint.h"
#include "codec/records/data.h"
#include "codec/records/inputs.h"
#include "codec/records/opened.h"
#include "codec/text.h"
#include "codec/tools/tool_format.h"
#include "codec/wire/encoding.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_logit_bias {
    uint32_t token_id;
    float bias;
};

/* The input of the chat template. */
struct mr_chat {
    const struct mr_data *messages; /* [message_count] maps, each with a role of text */
    size_t message_count;           /* 0: the request has no messages */
    struct mr_data tools;           /* a list of maps, or null */
    struct mr_data documents;       /* a list of maps, or null */
    struct mr_data kwargs;          /* chat_template_kwargs: a map, or null */
    /* the template adds the header of an answer; false only if the record requests that */
    bool add_generation_prompt;
    bool generation_prompt_given; /* the record has add_generation_prompt */
    bool continue_final_message;  /* the answer continues the last message */
};

/* In the order of the names in codec/records/request_tools.c. */
enum mr_tool_choice {
    MR_TOOL_CHOICE_AUTO,
    MR_TOOL_CHOICE_NONE, /* also without tools */
    MR_TOOL_CHOICE_REQUIRED,
    MR_TOOL_CHOICE_NAMED
};

/* How the answer may call tools. */
struct mr_tool_use {
    enum mr_tool_choice choice;
    struct mr_text name; /* of the tool that must be called; choice NAMED */
    bool single;         /* parallel_tool_calls is false: at most one call */
    /* how the model writes calls; NONE: calls are not searched for. Set by intake. */
    enum mr_tool_format format;
    bool strict; /* choice AUTO: a constraint makes the calls obey the schemas of the tools */
    bool separate_reasoning; /* the result reports reasoning separately from the rest of the text */
    enum mr_opened opened;   /* reasoning in which the answer begins. Set by intake. */
};

struct mr_stop_match;

/* A limit on the tokens of reasoning (batching/sequence/thinking.h). */
struct mr_thinking_limit {
    bool given;
    uint32_t tokens; /* after these the end of reasoning is forced */
    /* set by intake */
    const uint32_t *end_ids; /* [end_count] tokens of the end of reasoning; 0: no limit */
    size_t end_count;
    struct mr_stop_match *words; /* begin (the first) and end reasoning */
    struct mr_text opened;       /* what the prompt has opened */
    bool channels;               /* the harmony format: reasoning may begin again */
};

/* top_k of a request that does not set it */
#define MR_TOP_K_UNSET UINT32_MAX

/* How to sample tokens. A float that is NaN, and top_k MR_TOP_K_UNSET, is not given:
 * batching/sequence/job.c replaces it by the model's default or by the value that means off. */
struct mr_sampling {
    float temperature, top_p, min_p, typical_p;
    uint32_t top_k;
    float repetition_penalty, presence_penalty, frequency_penalty;
    uint64_t seed; /* as given; 0 without: batching/sequence/job.c derives one from the id */
    bool has_seed; /* the record has a seed */
    const struct mr_logit_bias *logit_bias;
    size_t logit_bias_count;
    const uint32_t *allowed_token_ids;
    size_t allowed_token_count;
    const struct mr_text *bad_words;
    size_t bad_word_count;
    /* number of best alternatives reported for each token, 0: none; -1: no logprobs */
    int32_t logprobs;
};

/* How the prompt is encoded (worker/intake/prompt.h). */
struct mr_prompt_rules {
    /* a longer prompt is cut to this many tokens; 0: a prompt that is too long is rejected;
     * UINT32_MAX: the prompt is cut to leave room for max_tokens */
    uint32_t tokens_max;
    bool keep_start; /* the end of the prompt is cut off, not its start */
    bool side_given; /* keep_start is from the record; without it a text that is embedded,
                      * classified or ranked keeps its start, and a prompt its end */
    /* whether the tokenizer adds its begin and end tokens. special_given false: it adds them to
     * `prompt` but not to `messages`. */
    bool special_given, add_special;
};

enum mr_task {
    MR_TASK_GENERATE,
    MR_TASK_SCORE, /* log-probabilities of continuations of the prompt; generates nothing */
    /* These generate nothing. A request of them has a prompt or several inputs. */
    MR_TASK_EMBED,    /* a vector for each text */
    MR_TASK_CLASSIFY, /* the probability of each label, for each text */
    MR_TASK_RERANK    /* a score for each document */
};

/* How hidden states become the vector of task EMBED. Without one of the first three: as the model's
 * files say. */
struct mr_pooling {
    bool last, first;    /* the hidden state of that token */
    bool mean;           /* the mean of all tokens' */
    bool normalize;      /* to the length 1 */
    uint32_t dimensions; /* the vector is cut to so many numbers first; 0: it is not */
};

/* A continuation of the prompt that is scored. */
struct mr_continuation {
    struct mr_text text;       /* bytes NULL: it came as token ids */
    const uint32_t *token_ids; /* from the record, or set by intake */
    size_t token_count;
};

struct mr_request {
    struct mr_arena *arena;
    struct mr_text id;
    struct mr_text model;
    struct mr_text prompt; /* bytes NULL: the record has no prompt */
    struct mr_chat chat;
    struct mr_tool_use tool_use;
    /* from the record, or set by intake after tokenizing the prompt */
    const uint32_t *token_ids;
    size_t token_count;
    bool has_token_ids; /* the record has prompt_token_ids */
    struct mr_prompt_rules prompt_rules;
    bool echo;             /* the result's text begins with the text that the answer continues */
    struct mr_text echoed; /* that text; set by intake if echo */
    bool keep_special;     /* the text shows control tokens, which otherwise have no text */
    struct mr_sampling sampling;
    enum mr_task task;
    struct mr_continuation *continuations; /* [continuation_count] of task SCORE */
    size_t continuation_count;
    struct mr_inputs inputs;
    struct mr_pooling pooling;
    bool embedding_base64;    /* the vector is written as the base64 text of its floats */
    bool scores_prompt;       /* the result has the log-probability of each token of the prompt */
    uint32_t prompt_logprobs; /* number of best alternatives reported for each of these */
    uint32_t max_tokens,
        min_tokens; /* max_tokens 0: nothing is generated; needs scores_prompt or a task */
    bool ignore_eos, include_stop, stream;
    struct mr_thinking_limit thinking;
    const struct mr_text *stops;
    size_t stop_count;
    const uint32_t *stop_token_ids;
    size_t stop_token_count;
    uint32_t max_chars;    /* most characters of the answer; 0: no limit */
    float min_confidence;  /* the answer ends at a token with a lower confidence; 0: no limit */
    uint32_t choice_count; /* n */
    int32_t priority;
    /* unix milliseconds, from the record's deadline_ms or timeout_ms; 0: none */
    int64_t deadline_ms;
    struct mr_text session;
    struct mr_text cache_salt; /* requests with another one share no computed prompt; empty: none */
    bool cache_read, cache_write;
    bool speculate;          /* prompt lookup may propose tokens, so a step may yield several */
    struct mr_text metadata; /* bytes of the field as encoded in the record, see `encoding` */
    enum mr_encoding encoding;
    struct mr_constraint constraint; /* constrains the answer; kind NONE: any answer */
    struct mr_grammar *grammar;      /* compiled from it by intake, one reference; or NULL */
    uint32_t unknown_fields;         /* number of members of the record with an unknown name */
    bool strict;                     /* what has no effect rejects the request, not only warns */
    /* [warning_count] sentences about members without effect; the result repeats them */
    struct mr_text *warnings;
    size_t warning_count;
};

/* Creates a request without a prompt; every optional field has its default value. */
struct mr_request *mr_request_create(enum mr_encoding encoding, uint32_t default_max_tokens);
/* Adds a sentence to the request's warnings; ignores it above MR_WARNINGS_MAX. False: no memory. */
bool mr_request_add_warning(struct mr_request *request, struct mr_text sentence);
/* True for a request of task embed, classify or rerank. */
static inline bool mr_request_reads_texts(const struct mr_request *request)
{
    return request->task != MR_TASK_GENERATE && request->task != MR_TASK_SCORE;
}
void mr_request_destroy(struct mr_request *request); /* may be NULL */

#endif
