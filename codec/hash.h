/* hash - FNV-1a with 64 bits (Fowler, Noll and Vo, 1991), for hash tables and seeds.
 *
 * The value is the same on every machine and in every version. The function is not secret: a table
 * whose keys come from outside uses a start value of its own or limits its number of keys.
 *
 * Threads: any (pure function). Memory: none. Errors: none. */
#ifndef MR_CODEC_HASH_H
#define MR_CODEC_HASH_H

#include <stddef.h>
#include <stdint.h>

#define MR_HASH_START 0xcbf29ce484222325u /* the offset basis of FNV-1a */

/* start: MR_HASH_START, a start value of the caller's own table, or the hash of the bytes in front
 * of these bytes. */
uint64_t mr_hash_bytes(uint64_t start, const void *bytes, size_t length);

#endif
