/* limits - the maximum of everything that a record, a template or a result may contain. Each limit
 * is checked before memory is allocated for a declared length. The operator can change the limits
 * that are marked with *. */
#ifndef MR_CODEC_LIMITS_H
#define MR_CODEC_LIMITS_H

#include <stddef.h>

#define MR_RECORD_BYTES_MAX        ((size_t)1 << 20)     /* * bytes of one request record */
#define MR_ID_BYTES_MAX            ((size_t)128)         /* id; results use it as record key */
#define MR_SESSION_BYTES_MAX       ((size_t)128)         /* session */
#define MR_MODEL_NAME_BYTES_MAX    ((size_t)256)         /* model */
#define MR_MESSAGES_MAX            ((size_t)1024)        /* messages of one chat */
#define MR_STOP_COUNT_MAX          ((size_t)8)           /* stop */
#define MR_STOP_BYTES_MAX          ((size_t)128)         /* one entry of stop or bad_words */
#define MR_STOP_TOKENS_MAX         ((size_t)64)          /* stop_token_ids */
#define MR_LOGIT_BIAS_MAX          ((size_t)1024)        /* entries of logit_bias */
#define MR_ALLOWED_TOKENS_MAX      ((size_t)4096)        /* allowed_token_ids */
#define MR_BAD_WORDS_MAX           ((size_t)64)          /* bad_words */
#define MR_LOGPROBS_MAX            20u                   /* logprobs: alternatives of one token */
#define MR_CHOICES_MAX             8u                    /* n */
#define MR_METADATA_BYTES_MAX      ((size_t)4096)        /* metadata, as encoded in the record */
#define MR_DEADLINE_MS_MAX         ((long long)86400000) /* 24 hours from now */
#define MR_TEMPLATE_KWARGS_MAX     ((size_t)32)          /* chat_template_kwargs */
#define MR_NESTING_MAX             16u                   /* depth of a record's maps and arrays */
#define MR_MEMBERS_MAX             ((size_t)4096)        /* members of one msgpack map */
#define MR_NODES_MAX               ((size_t)1100000) /* values in one record: 1 MiB of token ids fits */
#define MR_RESULT_BYTES_MAX        ((size_t)64 << 20) /* one result; logprobs make it large */
#define MR_KWARG_NAME_BYTES_MAX    ((size_t)64)       /* name in chat_template_kwargs */
#define MR_ROLE_BYTES_MAX          ((size_t)64)       /* role of a message */
#define MR_REQUEST_ARENA_BYTES_MAX ((size_t)32 << 20) /* memory of one request */
#define MR_TEMPLATE_STEPS_MAX      2000000u           /* interpreter steps of one rendering */
#define MR_TEMPLATE_DEPTH_MAX      64u /* nesting of a template's tags and expressions */
#define MR_TEMPLATE_BYTES_MAX      ((size_t)8 << 20) /* output of one rendering */

#endif
