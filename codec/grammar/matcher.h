/* matcher - the position of one answer in a grammar.
 *
 * The state is a value: mr_matcher_copy makes an independent second answer. The functions need a
 * mr_parse as scratch memory, which several matchers may use one after the other.
 *
 * Owner:  the owner of the sequence. Memory: the struct, about 19 KiB; it borrows the grammar.
 * Errors: none. */
#ifndef MR_CODEC_GRAMMAR_MATCHER_H
#define MR_CODEC_GRAMMAR_MATCHER_H

#include "codec/grammar/parse.h"

#define MR_MATCHER_NODES 1024u
#define MR_MATCHER_HEADS 256u

struct mr_matcher {
    const struct mr_grammar *grammar;
    uint32_t node_count, head_count;
    bool can_end;  /* the answer may end here */
    bool at_start; /* no byte has been matched yet */
    struct mr_parse_head heads[MR_MATCHER_HEADS];
    struct mr_parse_node nodes[MR_MATCHER_NODES];
};

/* grammar must outlive the matcher. */
void mr_matcher_init(struct mr_matcher *matcher, const struct mr_grammar *grammar,
                     struct mr_parse *parse);
void mr_matcher_copy(struct mr_matcher *to, const struct mr_matcher *from);
/* Matches the next bytes of the answer. False, with the matcher unchanged, if no text of the
 * grammar continues with them. */
bool mr_matcher_accept(struct mr_matcher *matcher, struct mr_parse *parse, struct mr_text bytes);
/* True when the answer is complete and nothing may follow. */
bool mr_matcher_is_over(const struct mr_matcher *matcher);
/* Writes to out[max] the bytes that every continuation begins with, and returns their number. The
 * result may be shorter than possible. 0 if the answer may end here. */
size_t mr_matcher_forced(const struct mr_matcher *matcher, struct mr_parse *parse, char *out,
                         size_t max);
/* Copies the matcher's heads and nodes into a parse: the heads become [0, head_count). */
void mr_matcher_load(const struct mr_matcher *matcher, struct mr_parse *parse);

#endif
