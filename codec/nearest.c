#include "codec/nearest.h"

#include <string.h>

#define NAME_BYTES_MAX ((size_t)32)

/* Levenshtein's edit distance between two texts of at most NAME_BYTES_MAX bytes, with one row of
 * the table in memory (Wagner and Fischer 1974). */
static size_t distance(struct mr_text a, struct mr_text b)
{
    size_t row[NAME_BYTES_MAX + 1];
    for (size_t k = 0; k <= b.length; k++)
        row[k] = k;
    for (size_t i = 1; i <= a.length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t k = 1; k <= b.length; k++) {
            size_t replace = diagonal + (a.bytes[i - 1] != b.bytes[k - 1]);
            diagonal = row[k];
            size_t shorter = row[k] < row[k - 1] ? row[k] : row[k - 1];
            row[k] = shorter + 1 < replace ? shorter + 1 : replace;
        }
    }
    return row[b.length];
}

void mr_nearest_consider(struct mr_nearest *nearest, const char *candidate)
{
    const struct mr_text name = {candidate, strlen(candidate)};
    if (name.length > NAME_BYTES_MAX || nearest->written.length > NAME_BYTES_MAX) return;
    size_t steps = distance(name, nearest->written);
    size_t allowed = name.length < 6 ? 2 : name.length / 3;
    if (steps > allowed || (nearest->name && steps >= nearest->steps)) return;
    nearest->steps = steps;
    nearest->name = candidate;
}
