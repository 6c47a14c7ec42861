#include "worker/intake/grammars.h"

#include "codec/grammar/token_mask.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    unsigned char digest[MR_GRAMMAR_DIGEST_BYTES];
    struct mr_grammar *grammar; /* NULL: the constraint was refused, see `refusal` */
    struct mr_error refusal;
    uint64_t used; /* number of the last use, counted over the whole cache */
};

struct mr_grammars {
    struct entry entries[MR_GRAMMARS_MAX];
    uint32_t count;
    size_t bytes;
    uint64_t uses;
    bool spelled[256]; /* bytes that the tokenizer can write */
};

enum mr_status mr_grammars_create(struct mr_grammars **out, const struct mr_tokenizer *tokenizer,
                                  struct mr_error *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out) return mr_fail(err, MR_NOMEM, "no memory for grammars");
    mr_token_mask_spelled(tokenizer, (*out)->spelled);
    return MR_OK;
}

static void drop_entry(struct mr_grammars *grammars, uint32_t index)
{
    struct entry *entry = &grammars->entries[index];
    if (entry->grammar) grammars->bytes -= mr_grammar_bytes(entry->grammar);
    mr_grammar_drop(entry->grammar);
    *entry = grammars->entries[--grammars->count];
}

void mr_grammars_destroy(struct mr_grammars *grammars)
{
    if (!grammars) return;
    while (grammars->count > 0)
        drop_entry(grammars, grammars->count - 1);
    free(grammars);
}

static struct entry *find(struct mr_grammars *grammars, const unsigned char *digest)
{
    for (uint32_t i = 0; i < grammars->count; i++)
        if (memcmp(grammars->entries[i].digest, digest, MR_GRAMMAR_DIGEST_BYTES) == 0)
            return &grammars->entries[i];
    return NULL;
}

static uint32_t oldest(const struct mr_grammars *grammars)
{
    uint32_t found = 0;
    for (uint32_t i = 1; i < grammars->count; i++)
        if (grammars->entries[i].used < grammars->entries[found].used) found = i;
    return found;
}

/* Adds an entry, which takes over the grammar's reference. Evicts entries first; a grammar above
 * MR_GRAMMARS_BYTES becomes the only entry. */
static struct entry *add(struct mr_grammars *grammars, const struct entry *entry)
{
    size_t bytes = entry->grammar ? mr_grammar_bytes(entry->grammar) : 0;
    while (grammars->count > 0 &&
           (grammars->count == MR_GRAMMARS_MAX || grammars->bytes + bytes > MR_GRAMMARS_BYTES))
        drop_entry(grammars, oldest(grammars));
    grammars->bytes += bytes;
    grammars->entries[grammars->count] = *entry;
    return &grammars->entries[grammars->count++];
}

enum mr_status mr_grammars_get(struct mr_grammars *grammars, const struct mr_constraint *constraint,
                               struct mr_grammar **out, struct mr_error *err)
{
    struct entry made = {.grammar = NULL};
    *out = NULL;
    enum mr_status status = mr_constraint_digest(constraint, made.digest, err);
    if (status != MR_OK) return status;
    struct entry *entry = find(grammars, made.digest);
    if (!entry) {
        status = mr_constraint_compile(&made.grammar, constraint, grammars->spelled, &made.refusal);
        if (status == MR_NOMEM) return mr_fail(err, status, "%s", made.refusal.detail);
        entry = add(grammars, &made);
    }
    entry->used = ++grammars->uses;
    if (!entry->grammar) return mr_fail(err, entry->refusal.status, "%s", entry->refusal.detail);
    *out = mr_grammar_hold(entry->grammar);
    return MR_OK;
}

uint32_t mr_grammars_count(const struct mr_grammars *grammars, size_t *bytes)
{
    *bytes = grammars->bytes;
    return grammars->count;
}
