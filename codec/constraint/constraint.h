/* constraint - constrained output: compiles a request's response_format to an automaton
 * (codec/grammar/automaton.h).
 *
 * The front ends read JSON schemas (schema.h), regular expressions (regex_front.h), grammars in
 * GBNF and Lark (grammar_front.h) and lists of choices. A front end rejects everything that it
 * cannot guarantee. The error names the place in the source: a JSON pointer, a byte offset or a
 * line.
 *
 * Compiling is bounded: MR_CONSTRAINT_BYTES_MAX of source, MR_GRAMMAR_WORK_MAX units of work (under
 * 100 ms), MR_GRAMMAR_BUILD_BYTES_MAX of memory while it runs and MR_GRAMMAR_BYTES_MAX after.
 *
 * Threads: any. Memory: the automaton is freed with its last reference.
 * Errors:  MR_INVALID_REQUEST for a source that is malformed or too large, MR_UNSUPPORTED for one
 *          that cannot be guaranteed, MR_NOMEM. */
#ifndef MR_CODEC_CONSTRAINT_CONSTRAINT_H
#define MR_CODEC_CONSTRAINT_CONSTRAINT_H

#include "codec/grammar/automaton.h"

#define MR_CONSTRAINT_BYTES_MAX ((size_t)256 << 10) /* bytes of a schema, regex or grammar */

enum mr_constraint_kind {
    MR_CONSTRAINT_NONE,        /* the answer is free */
    MR_CONSTRAINT_JSON_OBJECT, /* any JSON object; no text */
    MR_CONSTRAINT_JSON_SCHEMA, /* text: the schema in JSON */
    MR_CONSTRAINT_REGEX,       /* text: the regular expression */
    MR_CONSTRAINT_CHOICE,      /* text: a JSON array of texts */
    /* The answer may contain tool calls (codec/constraint/call_frame.h); text: the schema of one
     * call. Calls stand between <tool_call> and </tool_call>; the second kind allows at most one:
     */
    MR_CONSTRAINT_TAGGED_CALLS,
    MR_CONSTRAINT_TAGGED_CALL,
    /* An answer that begins with { consists of calls separated by "; "; the second kind allows one:
     */
    MR_CONSTRAINT_WHOLE_CALLS,
    MR_CONSTRAINT_WHOLE_CALL,
    MR_CONSTRAINT_EBNF /* text: a grammar in GBNF or Lark */
};

#define MR_REASONING_END "</think>"

struct mr_constraint {
    enum mr_constraint_kind kind;
    struct mr_text text;
    /* The prompt has opened a reasoning block. The answer is any text up to the first
     * MR_REASONING_END, that tag, at most two line ends, and then the text that `kind` and `text`
     * describe. */
    bool after_reasoning;
};

/* Computes a cache key: equal constraints have equal digests. */
enum mr_status mr_constraint_digest(const struct mr_constraint *constraint,
                                    unsigned char digest[MR_GRAMMAR_DIGEST_BYTES],
                                    struct mr_error *err);
/* Compiles a constraint of any kind but NONE. *out has one reference; its warning names a part of
 * the source that has no effect, such as an unknown format. spelled: [256] the bytes that the
 * model's tokens can spell (mr_token_mask_spelled), or NULL for all. Texts with other bytes are
 * left out of the grammar, because no token could continue the answer there. */
enum mr_status mr_constraint_compile(struct mr_grammar **out,
                                     const struct mr_constraint *constraint, const bool *spelled,
                                     struct mr_error *err);

#endif
