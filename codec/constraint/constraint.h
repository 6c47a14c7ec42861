/* constraint - constrained output: what an answer may be, from a request's response_format to an
 * automaton (codec/grammar/automaton.h).
 *
 * The front ends read JSON schemas (schema.h), regular expressions (regex_front.h), grammars in
 * GBNF and Lark (grammar_front.h) and lists of choices. What a front end cannot guarantee it
 * refuses, with the place in the source: JSON pointer, byte offset or line.
 *
 * Compiling is bounded: MR_CONSTRAINT_BYTES_MAX of source, MR_GRAMMAR_WORK_MAX units of work (under
 * 100 ms), MR_GRAMMAR_BUILD_BYTES_MAX of memory while it runs and MR_GRAMMAR_BYTES_MAX after.
 *
 * Threads: any. Memory: the automaton is freed with its last reference.
 * Errors:  MR_INVALID_REQUEST for a source that is wrong or too large, MR_UNSUPPORTED for one that
 *          asks for what cannot be guaranteed, MR_NOMEM. */
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
    /* The answer may have calls of tools (codec/constraint/call_frame.h); text: the schema of one.
     * Calls between <tool_call> and </tool_call>, or at most one of them: */
    MR_CONSTRAINT_TAGGED_CALLS,
    MR_CONSTRAINT_TAGGED_CALL,
    /* An answer that begins with { is calls with "; " between, or one call: */
    MR_CONSTRAINT_WHOLE_CALLS,
    MR_CONSTRAINT_WHOLE_CALL,
    MR_CONSTRAINT_EBNF /* text: a grammar in GBNF or Lark */
};

#define MR_REASONING_END "</think>"

struct mr_constraint {
    enum mr_constraint_kind kind;
    struct mr_text text;
    /* The prompt has opened reasoning: any text up to the first MR_REASONING_END, that, at most two
     * line ends, and then what kind and text say. */
    bool behind_reasoning;
};

/* The content of a constraint as a key: equal constraints have equal digests. */
enum mr_status mr_constraint_digest(const struct mr_constraint *constraint,
                                    unsigned char digest[MR_GRAMMAR_DIGEST_BYTES],
                                    struct mr_error *err);
/* Compiles a constraint of any kind but NONE. *out has one reference. spelled: [256] the bytes that
 * tokens of the model can spell (mr_token_mask_spelled); texts with others are left out, so an
 * answer never comes to a point where no token continues it. NULL: all bytes. */
enum mr_status mr_constraint_compile(struct mr_grammar **out,
                                     const struct mr_constraint *constraint, const bool *spelled,
                                     struct mr_error *err);

#endif
