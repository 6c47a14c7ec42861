/* nearest - finds the known name that is most similar to a misspelt one, for "did you mean".
 *
 * Pure functions. Memory: none; names are borrowed. Errors: none. */
#ifndef MR_CODEC_NEAREST_H
#define MR_CODEC_NEAREST_H

#include "codec/text.h"

/* A search. Set `written`, call _consider for each known name, and read `name`. */
struct mr_nearest {
    struct mr_text written; /* the misspelt name */
    const char *name;       /* NULL: no name is near enough */
    size_t steps;           /* its edit distance */
};

/* Takes the candidate if it is nearer than the names before. It is near enough when its edit
 * distance is at most a third of its length, or 2 if it is shorter than 6 bytes. Names of more than
 * 32 bytes are not similar to any name. */
void mr_nearest_consider(struct mr_nearest *nearest, const char *candidate);

#endif
