#include "codec/hash.h"

uint64_t mr_hash_bytes(uint64_t start, const void *bytes, size_t length)
{
    const unsigned char *next = bytes;
    uint64_t hash = start;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ next[i]) * 0x100000001b3u;
    return hash;
}
