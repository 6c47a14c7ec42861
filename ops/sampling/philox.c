#include "ops/sampling/philox.h"

#define ROUNDS 10

void mr_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t a = counter[0], b = counter[1], c = counter[2], d = counter[3];
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t first = (uint64_t)0xd2511f53u * a, second = (uint64_t)0xcd9e8d57u * c;
        a = (uint32_t)(second >> 32) ^ b ^ k0;
        c = (uint32_t)(first >> 32) ^ d ^ k1;
        b = (uint32_t)second;
        d = (uint32_t)first;
        /* Key increments: fractions of the golden ratio and of the square root of 3. */
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
}
