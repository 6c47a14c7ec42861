/* digest_cache - keeps the hash of all bytes of a model's weights in a small file, because hashing
 * a large model would take longer than a second at every start.
 *
 * The file is MODEL.gguf.millrace-digest in the folder of a GGUF file, or .millrace-digest in a
 * model folder; if it cannot be written there, a file in the user's cache folder. It holds one
 * line: the SHA-256 over the stamps of all weight files, and the hash. The hash is used only if
 * inode, size and both times of every weight file have not changed since. A damaged file, or one
 * for other weights, is ignored.
 *
 * Owner: one thread; several processes may read and write the file at once. Memory: none kept.
 * Errors: none; without a usable file the caller hashes the weights. */
#ifndef MR_OPS_FILES_DIGEST_CACHE_H
#define MR_OPS_FILES_DIGEST_CACHE_H

#include "codec/sha256.h"
#include "ops/files/mapped_file.h"

/* The hash is not kept while a weight file is younger than this. It could be changed again without
 * a new time stamp, because file systems count time in steps of up to two seconds. */
#define MR_DIGEST_CACHE_AGE_NS ((int64_t)2000000000)

struct mr_digest_cache {
    const char *model_path;             /* GGUF file or model folder */
    const char *user_folder;            /* the user's cache folder; NULL or "": none */
    const struct mr_file_stamp *stamps; /* [stamp_count]: the weight files, in a fixed order */
    uint32_t stamp_count;
};

/* Fills in the hash that was kept for these files; false: none was kept. */
bool mr_digest_cache_find(const struct mr_digest_cache *cache, unsigned char hash[MR_SHA256_BYTES]);
/* Keeps the hash, and creates user_folder if needed. False: no file could be written, or a weight
 * file is younger than MR_DIGEST_CACHE_AGE_NS. */
bool mr_digest_cache_keep(const struct mr_digest_cache *cache,
                          const unsigned char hash[MR_SHA256_BYTES]);

#endif
