#include "batching/sequence/prompt_lookup.h"

#include "codec/check.h"

#include <stdbool.h>
#include <stdlib.h>

#define HASH_BITS_MAX   14u    /* entries of the hash table: 64 KiB */
#define WINDOW_BITS_MAX 16u    /* places that are remembered: 256 KiB */
#define CHAIN_MAX       24u    /* places tried at a time */
#define COMMON_MIN      2u     /* shortest common text */
#define COMMON_MAX      24u    /* a longer one is treated as this long */
#define LEARNING_RATE   0.125f /* weight of one guess in a learnt chance */

/* Initial chances, by the length of the common text. They are below those learnt in answers that
 * quote, so that free text loses little time before its chances are learnt. */
static const struct {
    uint32_t length; /* the longest */
    float chance;
} first_chances[] = {{2, 0.20f}, {3, 0.40f},  {5, 0.60f},
                     {9, 0.75f}, {15, 0.85f}, {UINT32_MAX, 0.95f}};
#define CLASS_COUNT (sizeof first_chances / sizeof *first_chances)

/* A place is the index of the token that follows a pair of tokens; 0: none. */
struct mr_prompt_lookup {
    uint32_t prompt_tokens;
    uint32_t read; /* tokens read */
    /* The guess for token `read` is the token at `next`; `common` equal tokens precede both. next
     * 0: there is no guess. */
    uint32_t next, common;
    float chances[CLASS_COUNT];
    uint32_t hash_bits, window_mask;
    uint32_t *last;    /* [1 << hash_bits] the last place with this hash */
    uint32_t places[]; /* [window_mask + 1] place & mask -> the place before with the same hash;
                          then the memory of `last` */
};

static uint32_t bits_for(uint32_t capacity, uint32_t most)
{
    uint32_t bits = 4;
    while (bits < most && 1u << bits < capacity)
        bits++;
    return bits;
}

size_t mr_prompt_lookup_bytes(uint32_t capacity)
{
    size_t entries = ((size_t)1 << bits_for(capacity, HASH_BITS_MAX)) +
                     ((size_t)1 << bits_for(capacity, WINDOW_BITS_MAX));
    return sizeof(struct mr_prompt_lookup) + entries * sizeof(uint32_t);
}

enum mr_status mr_prompt_lookup_create(struct mr_prompt_lookup **out, uint32_t capacity,
                                       uint32_t prompt_tokens, struct mr_error *err)
{
    struct mr_prompt_lookup *lookup = *out = calloc(1, mr_prompt_lookup_bytes(capacity));
    if (lookup == NULL) return mr_fail(err, MR_NOMEM, "no memory to look up %u tokens", capacity);
    lookup->prompt_tokens = prompt_tokens;
    lookup->hash_bits = bits_for(capacity, HASH_BITS_MAX);
    lookup->window_mask = (1u << bits_for(capacity, WINDOW_BITS_MAX)) - 1;
    lookup->last = lookup->places + lookup->window_mask + 1;
    for (size_t i = 0; i < CLASS_COUNT; i++)
        lookup->chances[i] = first_chances[i].chance;
    return MR_OK;
}

void mr_prompt_lookup_destroy(struct mr_prompt_lookup *lookup)
{
    free(lookup);
}

static size_t class_of(uint32_t common)
{
    size_t i = 0;
    while (common > first_chances[i].length)
        i++;
    return i;
}

/* Multiplicative hash (Knuth, volume 3, section 6.4) of the pair of tokens that ends before `end`.
 */
static uint32_t *entry_of(struct mr_prompt_lookup *lookup, const uint32_t *tokens, uint32_t end)
{
    uint64_t pair = (uint64_t)tokens[end - 2] << 32 | tokens[end - 1];
    return &lookup->last[pair * 0x9e3779b97f4a7c15u >> (64 - lookup->hash_bits)];
}

static uint32_t common_of(const uint32_t *tokens, uint32_t place, uint32_t end)
{
    uint32_t common = 0;
    while (common < COMMON_MAX && common < place &&
           tokens[place - 1 - common] == tokens[end - 1 - common])
        common++;
    return common;
}

/* Sets the guess of token `end` to the place with the longest common text, if that is longer than
 * the current guess's. */
static void find(struct mr_prompt_lookup *lookup, const uint32_t *tokens, uint32_t end)
{
    uint32_t place = *entry_of(lookup, tokens, end);
    uint32_t best = lookup->next == 0 ? COMMON_MIN - 1 : lookup->common;
    for (uint32_t tried = 0; tried < CHAIN_MAX && place != 0; tried++) {
        if (end - place > lookup->window_mask) return; /* forgotten */
        uint32_t common = common_of(tokens, place, end);
        if (common > best) {
            lookup->next = place;
            best = lookup->common = common;
        }
        uint32_t before = lookup->places[place & lookup->window_mask];
        if (before >= place) return;
        place = before;
    }
}

static void learn(struct mr_prompt_lookup *lookup, bool right)
{
    float *chance = &lookup->chances[class_of(lookup->common)];
    *chance += LEARNING_RATE * ((right ? 1.0f : 0.0f) - *chance);
}

/* Reads token number `read`. */
static void read_token(struct mr_prompt_lookup *lookup, const uint32_t *tokens)
{
    const uint32_t end = ++lookup->read;
    if (lookup->next != 0) {
        bool right = tokens[lookup->next] == tokens[end - 1];
        learn(lookup, right);
        lookup->next = right ? lookup->next + 1 : 0;
        if (lookup->common < COMMON_MAX) lookup->common++;
    }
    if (end < COMMON_MIN) return;
    bool wanted = end >= lookup->prompt_tokens;
    if (wanted && (lookup->next == 0 || lookup->common < COMMON_MAX)) find(lookup, tokens, end);
    uint32_t *entry = entry_of(lookup, tokens, end);
    lookup->places[end & lookup->window_mask] = *entry;
    *entry = end;
}

uint32_t mr_prompt_lookup_guess(struct mr_prompt_lookup *lookup, const uint32_t *tokens,
                                uint32_t count, struct mr_guess *guesses, uint32_t max)
{
    MR_ASSERT(lookup->read <= count);
    while (lookup->read < count)
        read_token(lookup, tokens);
    if (lookup->next == 0) return 0;
    for (uint32_t i = 0; i < max; i++) {
        const uint32_t from = lookup->next + i; /* may be one of the guesses itself */
        guesses[i] = (struct mr_guess){.token_id = from < count ? tokens[from]
                                                                : guesses[from - count].token_id,
                                       .chance = lookup->chances[class_of(lookup->common + i)]};
    }
    return max;
}
