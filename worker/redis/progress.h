/* progress - what Redis keeps of a request while it runs, so that its next attempt knows of the
 * earlier ones: a list of entries, each appended whole, each judged by itself.
 *
 * An entry, little endian:
 *      0  magic u8   1  kind u8   2  key id u8 (0: not sealed)   3  top count u8   4  attempt u32
 *      8  not sealed: body, then the first 8 bytes of SHA-256 over the request's name, head, body
 *         sealed: nonce [12], body encrypted, tag [16]; AES-256-GCM over the same (codec/aes_gcm.h)
 * and its body:
 *     START    index u32, shown u32, identity [32]: the attempt begins behind `index` tokens of the
 *              attempt before
 *     TOKENS   index u32, shown u32, then of each token: id u32, logprob f32, probability f32, and
 *              top count times id u32, logprob f32
 *     RELEASE  nothing: it was handed back, not crashed; AGAIN  nothing: it runs on after that
 * `shown`: as many tokens are known to have reached the token topic.
 *
 * A request's name is the SHA-256 of all that makes it this request: group, tenant, topic,
 * partition, offset, timestamp, id and the record itself. Its identity is that of the model and the
 * rendered prompt: tokens of another one are not gone on from.
 *
 * Reading takes entries in order. What is damaged, of another request or sealed otherwise is
 * skipped; tokens count only while they follow each other without a gap and belong to the newest
 * attempt, so that a worker that was given up and wakes again changes nothing.
 *
 * Owner: one thread at a time. Memory: a history's tokens, at most MR_PROGRESS_TOKENS_MAX. Errors:
 * none; when memory is out, fewer tokens are known. */
#ifndef MR_WORKER_REDIS_PROGRESS_H
#define MR_WORKER_REDIS_PROGRESS_H

#include "codec/sha256.h"
#include "codec/text.h"
#include "kvcache/block_frame.h"
#include "ops/model.h"

#define MR_PROGRESS_KEY_BYTES    ((size_t)38) /* with the NUL */
#define MR_PROGRESS_ATTEMPTS_MAX 255u
#define MR_PROGRESS_TOKENS_MAX   32768u
/* Of an entry of one token. */
#define MR_PROGRESS_BYTES_MAX ((size_t)8 + 8 + 12 + 8 * MR_LOGPROBS_MAX + 28)

/* What a request is named after; all borrowed. */
struct mr_progress_origin {
    const char *group, *tenant, *topic;
    int32_t partition;
    int64_t offset, timestamp_ms;
    struct mr_text id, value;
};

struct mr_progress_name {
    unsigned char digest[MR_SHA256_BYTES];
    char key[MR_PROGRESS_KEY_BYTES]; /* in Redis; NUL-terminated */
};

void mr_progress_name_of(struct mr_sha256 *hash, const struct mr_progress_origin *origin,
                         struct mr_progress_name *name);
/* weights_digest: of ops/model.h. */
void mr_progress_identity_of(struct mr_sha256 *hash, const unsigned char weights_digest[32],
                             const uint32_t *token_ids, size_t token_count,
                             unsigned char identity[MR_SHA256_BYTES]);

enum mr_progress_kind {
    MR_PROGRESS_START = 1,
    MR_PROGRESS_TOKENS,
    MR_PROGRESS_RELEASE,
    MR_PROGRESS_RECLAIM
};

struct mr_progress_entry {
    enum mr_progress_kind kind;
    uint32_t attempt, index, shown;
    const unsigned char *identity;  /* of a START */
    const struct mr_sample *sample; /* of TOKENS: the one at index */
};

/* Who writes and reads; borrowed. */
struct mr_progress_tools {
    struct mr_sha256 *hash;
    struct mr_frame_keys *keys; /* count 0: entries are not sealed, and sealed ones not read */
};

/* Writes an entry into out [MR_PROGRESS_BYTES_MAX]; returns its length. nonce must be new; only
 * read with keys. */
size_t mr_progress_write(const struct mr_progress_tools *tools, const struct mr_progress_name *name,
                         const struct mr_progress_entry *entry,
                         const unsigned char nonce[MR_AES_NONCE_BYTES], unsigned char *out);

/* What a list says. Zeroed is: nothing. */
struct mr_progress_history {
    uint32_t attempts;         /* the highest attempt that began */
    uint32_t crashes;          /* those that began and were not handed back */
    struct mr_sample *samples; /* [count] from the first token on; malloc'ed */
    uint32_t count, shown;     /* shown <= count */
    uint32_t refused;          /* entries that were skipped */
    /* private */
    uint32_t room, attempt; /* attempt: whose tokens count */
    bool whole;             /* no token is missing so far */
    uint64_t running[(MR_PROGRESS_ATTEMPTS_MAX + 64) / 64];
};

/* Takes the next entry. identity: tokens of another one are left out. */
void mr_progress_read(struct mr_progress_history *history, const struct mr_progress_tools *tools,
                      const struct mr_progress_name *name,
                      const unsigned char identity[MR_SHA256_BYTES], struct mr_text entry);
/* Frees the tokens; all is forgotten. */
void mr_progress_clear(struct mr_progress_history *history);

#endif
