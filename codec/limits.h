/* limits - every maximum of what comes from outside, with its reason. Checked before anything is
 * allocated from a declared length. Those marked * can be lowered or raised by the operator. */
#ifndef MR_CODEC_LIMITS_H
#define MR_CODEC_LIMITS_H

#include <stddef.h>

#define MR_RECORD_BYTES_MAX        ((size_t)1 << 20)     /* * one request record */
#define MR_ID_BYTES_MAX            ((size_t)128)         /* request id: it is also the record key */
#define MR_SESSION_BYTES_MAX       ((size_t)128)         /* conversation id */
#define MR_MODEL_NAME_BYTES_MAX    ((size_t)256)         /* model field */
#define MR_MESSAGES_MAX            ((size_t)1024)        /* messages of one chat */
#define MR_STOP_COUNT_MAX          ((size_t)8)           /* stop strings */
#define MR_STOP_BYTES_MAX          ((size_t)128)         /* bytes of one of them */
#define MR_STOP_TOKENS_MAX         ((size_t)64)          /* stop_token_ids */
#define MR_LOGIT_BIAS_MAX          ((size_t)1024)        /* entries of logit_bias */
#define MR_ALLOWED_TOKENS_MAX      ((size_t)4096)        /* allowed_token_ids */
#define MR_BAD_WORDS_MAX           ((size_t)64)          /* bad_words */
#define MR_LOGPROBS_MAX            20u                   /* best alternatives reported a token */
#define MR_CHOICES_MAX             8u                    /* n */
#define MR_METADATA_BYTES_MAX      ((size_t)4096)        /* metadata, encoded */
#define MR_DEADLINE_MS_MAX         ((long long)86400000) /* 24 h ahead */
#define MR_TEMPLATE_KWARGS_MAX     ((size_t)32)          /* chat_template_kwargs */
#define MR_NESTING_MAX             16u                   /* depth of a record's maps and arrays */
#define MR_MEMBERS_MAX             ((size_t)4096)        /* members of one msgpack map */
#define MR_NODES_MAX               ((size_t)1100000) /* values in one record: a 1 MiB record of ids */
#define MR_RESULT_BYTES_MAX        ((size_t)64 << 20) /* one answer: logprobs of a long one */
#define MR_KWARG_NAME_BYTES_MAX    ((size_t)64)       /* name in chat_template_kwargs */
#define MR_ROLE_BYTES_MAX          ((size_t)64)       /* role of a message */
#define MR_REQUEST_ARENA_BYTES_MAX ((size_t)32 << 20) /* all memory of one request */
#define MR_TEMPLATE_STEPS_MAX      2000000u           /* interpreter steps of one rendering */
#define MR_TEMPLATE_DEPTH_MAX      64u                /* nesting of a template */
#define MR_TEMPLATE_BYTES_MAX      ((size_t)8 << 20)  /* output of one rendering */

#endif
