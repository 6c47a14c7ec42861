/* The trail of a request: entries of a list in Redis.
 *
 * Input: entries, each a length (u8, at most 255) and a form (u8), then the entry's bytes. Form 0:
 * the entry as it is; 1: head and body, to which the check is added; 2: the same, encrypted; 3: the
 * fields of an entry that a worker writes. Keys are configured when the first byte of the input has
 * its lowest bit set. */
#include "tests/fuzz/fuzz.h"
#include "worker/resume/progress.h"

#include <math.h>
#include <stdlib.h>

#define HEAD_BYTES  8u
#define CHECK_BYTES 8u
#define AAD_BYTES   (MR_SHA256_BYTES + HEAD_BYTES)

struct bench {
    struct mr_progress_set set;
    struct mr_progress_tools tools;
    struct mr_progress_name name;
    unsigned char identity[MR_SHA256_BYTES];
    struct mr_progress_history history;
    size_t entries;
};

static void open_bench(struct bench *bench, bool sealed)
{
    static const struct mr_progress_origin origin = {.group = "g",
                                                     .tenant = "t",
                                                     .topic = "r",
                                                     .partition = 3,
                                                     .offset = 7,
                                                     .id = {"a", 1},
                                                     .value = {"{}", 2}};
    static const struct mr_frame_secret secret = {1, {1}};
    *bench = (struct bench){0};
    MR_ASSERT(mr_progress_set_open(&bench->set, &secret, sealed, NULL) == MR_OK);
    bench->tools = (struct mr_progress_tools){bench->set.hash, &bench->set.keys};
    mr_progress_name_of(bench->set.hash, &origin, &bench->name);
    const struct mr_progress_model model = {secret.key, NULL};
    mr_progress_identity_of(bench->set.hash, &model, NULL, 0, bench->identity);
}

/* Appends the check over name, head and body, like a worker without encryption keys. */
static size_t add_check(struct bench *bench, unsigned char *entry, size_t length)
{
    unsigned char digest[MR_SHA256_BYTES];
    mr_sha256_begin(bench->set.hash);
    mr_sha256_add(bench->set.hash, bench->name.digest, MR_SHA256_BYTES);
    mr_sha256_add(bench->set.hash, entry, length);
    mr_sha256_end(bench->set.hash, digest);
    memcpy(entry + length, digest, CHECK_BYTES);
    return length + CHECK_BYTES;
}

static size_t seal(struct bench *bench, unsigned char *entry, size_t length)
{
    unsigned char aad[AAD_BYTES], body[256], nonce[MR_AES_NONCE_BYTES] = {0};
    struct mr_aes_gcm *key = mr_frame_keys_find(&bench->set.keys, 1);
    size_t size = length - HEAD_BYTES;
    if (!key) return length;
    memcpy(aad, bench->name.digest, MR_SHA256_BYTES);
    memcpy(aad + MR_SHA256_BYTES, entry, HEAD_BYTES);
    memcpy(body, entry + HEAD_BYTES, size);
    nonce[0] = (unsigned char)bench->entries;
    memcpy(entry + HEAD_BYTES, nonce, sizeof nonce);
    unsigned char *at = entry + HEAD_BYTES + sizeof nonce;
    struct mr_aes_message message = {
        .nonce = nonce, .data = aad, .data_length = AAD_BYTES, .length = size};
    mr_aes_gcm_seal(key, &message, body, at, at + size);
    return length + sizeof nonce + MR_AES_TAG_BYTES;
}

/* Writes an entry like a worker. Such an entry must be accepted. */
static void write_entry(struct bench *bench, struct mr_text fields)
{
    unsigned char out[MR_PROGRESS_BYTES_MAX], nonce[MR_AES_NONCE_BYTES] = {1};
    struct fuzz_cursor cursor = {(const uint8_t *)fields.bytes, fields.length};
    struct mr_progress_entry entry = {.kind = fuzz_u8(&cursor) % 5 + MR_PROGRESS_START};
    struct mr_sample sample = {.token_id = fuzz_u16(&cursor), .logprob = -1, .probability = 0.5f};
    entry.attempt = fuzz_u8(&cursor) % MR_PROGRESS_ATTEMPTS_MAX + 1;
    entry.index = fuzz_u8(&cursor);
    entry.shown = fuzz_u8(&cursor);
    sample.top_count = fuzz_u8(&cursor) % (MR_LOGPROBS_MAX + 1);
    if (entry.kind == MR_PROGRESS_START) {
        entry.identity = bench->identity;
        entry.accompanied = fuzz_u8(&cursor) & 1u;
        entry.apart = fuzz_u8(&cursor) & 1u;
    }
    if (entry.kind == MR_PROGRESS_TOKENS) entry.sample = &sample;
    nonce[1] = (unsigned char)bench->entries;
    size_t length = mr_progress_write(&bench->tools, &bench->name, &entry, nonce, out);
    uint32_t refused = bench->history.refused;
    MR_ASSERT(length <= MR_PROGRESS_BYTES_MAX);
    mr_progress_read(&bench->history, &bench->tools, &bench->name, bench->identity,
                     (struct mr_text){(char *)out, length});
    MR_ASSERT(bench->history.refused == refused);
}

static void check(const struct bench *bench)
{
    const struct mr_progress_history *history = &bench->history;
    MR_ASSERT(history->shown <= history->count && history->count <= bench->entries);
    MR_ASSERT(history->attempts <= MR_PROGRESS_ATTEMPTS_MAX);
    MR_ASSERT(history->crashes <= MR_PROGRESS_ATTEMPTS_MAX && history->refused <= bench->entries);
    uint32_t crash = mr_progress_last_crash(history);
    MR_ASSERT(crash <= history->attempts && (crash > 0) == (history->crashes > 0));
    for (uint32_t attempt = 1; attempt <= history->attempts; attempt++) {
        bool released = mr_progress_was_released(history, attempt);
        MR_ASSERT(!(released && attempt == crash));
        mr_progress_was_alone(history, attempt);
    }
    for (uint32_t i = 0; i < history->count; i++) {
        MR_ASSERT(history->samples[i].top_count <= MR_LOGPROBS_MAX);
        MR_ASSERT(isfinite(history->samples[i].logprob));
    }
}

static void read_entry(struct bench *bench, struct fuzz_cursor *cursor)
{
    size_t length = fuzz_u8(cursor);
    uint8_t form = fuzz_u8(cursor) % 4;
    struct mr_text bytes = fuzz_take(cursor, length);
    bench->entries++;
    if (form == 3) {
        write_entry(bench, bytes);
        return;
    }
    unsigned char *entry = malloc(bytes.length + 64);
    MR_ASSERT(entry);
    length = bytes.length;
    if (length) memcpy(entry, bytes.bytes, length);
    if (form == 1) length = add_check(bench, entry, length);
    if (form == 2 && length >= HEAD_BYTES) length = seal(bench, entry, length);
    entry = realloc(entry, length + (length == 0));
    mr_progress_read(&bench->history, &bench->tools, &bench->name, bench->identity,
                     (struct mr_text){(char *)entry, length});
    free(entry);
    check(bench);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_cursor cursor = {data, size};
    struct bench bench;
    open_bench(&bench, fuzz_u8(&cursor) & 1u);
    while (cursor.left > 0)
        read_entry(&bench, &cursor);
    mr_progress_clear(&bench.history);
    mr_progress_set_close(&bench.set);
    return 0;
}
