/* limits - the maximum of everything that a record, a template or a result may contain. Each limit
 * is checked before memory is allocated for a declared length. The operator can change
 * MR_RECORD_BYTES_MAX. */
#ifndef MR_CODEC_LIMITS_H
#define MR_CODEC_LIMITS_H

#include <stddef.h>

#define MR_RECORD_BYTES_MAX        ((size_t)1 << 20) /* bytes of one request record */
#define MR_ID_BYTES_MAX            ((size_t)128)     /* bytes of a request's id */
#define MR_SESSION_BYTES_MAX       ((size_t)128)     /* bytes of field session */
#define MR_SALT_BYTES_MAX          ((size_t)256)     /* bytes of field cache_salt */
#define MR_MODEL_NAME_BYTES_MAX    ((size_t)256)     /* bytes of field model */
#define MR_MESSAGES_MAX            ((size_t)1024)    /* messages of one chat */
#define MR_STOP_COUNT_MAX          ((size_t)8)       /* entries of field stop */
#define MR_STOP_BYTES_MAX          ((size_t)128)     /* bytes of one entry of stop or bad_words */
#define MR_STOP_TOKENS_MAX         ((size_t)64)      /* entries of stop_token_ids */
#define MR_LOGIT_BIAS_MAX          ((size_t)1024)    /* entries of logit_bias */
#define MR_ALLOWED_TOKENS_MAX      ((size_t)4096)    /* entries of allowed_token_ids */
#define MR_BAD_WORDS_MAX           ((size_t)64)      /* entries of bad_words */
#define MR_LOGPROBS_MAX            20u               /* logprobs: alternatives of one token */
#define MR_CHOICES_MAX             8u                /* choices of one request: field n */
#define MR_CONTINUATIONS_MAX       ((size_t)64)      /* entries of continuations */
#define MR_INPUTS_MAX              ((size_t)2048)    /* entries of input or documents */
#define MR_WARNINGS_MAX            ((size_t)64)      /* warnings of one request */
#define MR_METADATA_BYTES_MAX      ((size_t)4096)    /* bytes of field metadata in the record */
#define MR_DEADLINE_MS_MAX         ((long long)86400000) /* longest deadline: 24 hours from now */
#define MR_TEMPLATE_KWARGS_MAX     ((size_t)32)          /* entries of chat_template_kwargs */
#define MR_NESTING_MAX             32u                   /* depth of a record's maps and arrays */
#define MR_MEMBERS_MAX             ((size_t)4096)        /* members of one msgpack map */
#define MR_NODES_MAX               ((size_t)1100000)     /* values in one record */
#define MR_RESULT_BYTES_MAX        ((size_t)64 << 20)    /* bytes of one result record */
#define MR_KWARG_NAME_BYTES_MAX    ((size_t)64)       /* bytes of a name in chat_template_kwargs */
#define MR_ROLE_BYTES_MAX          ((size_t)64)       /* bytes of the role of a message */
#define MR_REQUEST_ARENA_BYTES_MAX ((size_t)32 << 20) /* bytes of memory for one request */
#define MR_TEMPLATE_STEPS_MAX      2000000u           /* interpreter steps to render a template */
#define MR_TEMPLATE_DEPTH_MAX      64u /* nesting of a template's tags and expressions */
#define MR_TEMPLATE_BYTES_MAX      ((size_t)8 << 20) /* bytes of a rendered template */

#endif
