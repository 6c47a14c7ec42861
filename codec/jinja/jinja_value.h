/* jinja_value - the values of a chat template: none, booleans, integers, floats, text, lists,
 * ordered dictionaries, namespaces and callables. They compare and convert to a boolean as in
 * Python.
 *
 * A mark on each byte of a text shows whether the byte came from the request. Slicing, joining,
 * trimming and replacing keep the marks, so user text cannot forge special tokens.
 *
 * Owner:  one rendering. Memory: all from the arena of the rendering.
 * Errors: MR_INVALID_REQUEST, sticky in the run: later calls do nothing and return undefined. */
#ifndef MR_CODEC_JINJA_JINJA_VALUE_H
#define MR_CODEC_JINJA_JINJA_VALUE_H

#include "codec/arena.h"
#include "codec/jinja/jinja_ast.h"
#include "codec/status.h"

enum mr_jinja_kind {
    MR_JINJA_UNDEFINED,
    MR_JINJA_NONE,
    MR_JINJA_BOOL,
    MR_JINJA_INT,
    MR_JINJA_FLOAT,
    MR_JINJA_TEXT,
    MR_JINJA_LIST,
    MR_JINJA_DICT,
    MR_JINJA_NAMESPACE, /* the only value whose attributes can be set; uses `dict` */
    MR_JINJA_FUNCTION,  /* a global function such as range */
    MR_JINJA_METHOD,    /* a method of a value, such as text.strip */
    MR_JINJA_MACRO,
    MR_JINJA_LOOP,   /* the variable `loop` of a for loop */
    MR_JINJA_CYCLER, /* result of cycler(...) */
    MR_JINJA_JOINER, /* result of joiner(...): a list of the separator, empty before its use */
    MR_JINJA_BIG     /* a number outside of 64 bits: its digits are `text` */
};

enum mr_jinja_list_kind {
    MR_JINJA_LIST_PLAIN,
    MR_JINJA_LIST_TUPLE,
    MR_JINJA_LIST_RANGE,
    MR_JINJA_LIST_VIEW,     /* keys(), values() or items() of a dictionary */
    MR_JINJA_LIST_ITERATOR, /* result of filters such as map: can be iterated once */
};

struct mr_jinja_value {
    enum mr_jinja_kind kind;
    bool markup; /* of a text: result of the filters safe and escape */
    union {
        int64_t integer; /* value of kind INT; of kind BOOL 0 or 1 */
        double number;
        struct {
            const char *bytes;
            /* [length] 1: the byte comes from the request; NULL: no byte does */
            const unsigned char *marks;
            size_t length;
        } text;
        struct mr_jinja_list *list;
        struct mr_jinja_dict *dict;
        struct {
            struct mr_text name;
            struct mr_jinja_value *self; /* value that a METHOD belongs to */
        } function;
        const struct mr_jinja_macro *macro; /* codec/jinja/jinja_objects.h */
        struct mr_jinja_loop *loop;
        struct mr_jinja_cycler *cycler;
    };
};

struct mr_jinja_list {
    enum mr_jinja_list_kind kind;
    struct mr_jinja_value *items;
    size_t count, capacity;
};

struct mr_jinja_dict {
    struct mr_jinja_value *keys, *values; /* arrays in insertion order; lookup is linear */
    size_t count, capacity;
};

/* The state of one rendering. */
struct mr_jinja_run {
    struct mr_arena *arena;
    enum mr_status status; /* first failure, which later failures do not replace */
    struct mr_error *err;
    uint32_t steps, depth;
    uint64_t unix_seconds;
};

/* Sets the run's status unless it has failed before. Returns undefined for the caller to return. */
struct mr_jinja_value mr_jinja_fail(struct mr_jinja_run *run, enum mr_status status,
                                    const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Counts a step of the run. False when the run has failed or exceeds MR_TEMPLATE_STEPS_MAX. */
bool mr_jinja_step(struct mr_jinja_run *run);
/* Counts a step before a function looks into a value that is nested in `level` containers. Also
 * false when level exceeds MR_TEMPLATE_DEPTH_MAX, because a list may contain itself. */
bool mr_jinja_step_into(struct mr_jinja_run *run, uint32_t level);

struct mr_jinja_value mr_jinja_undefined(void);
struct mr_jinja_value mr_jinja_none(void);
struct mr_jinja_value mr_jinja_bool(bool value);
struct mr_jinja_value mr_jinja_int(int64_t value);
struct mr_jinja_value mr_jinja_float(double value);
/* Makes a text value that borrows the bytes. from_message: marks them as coming from the request.
 */
struct mr_jinja_value mr_jinja_text(struct mr_jinja_run *run, struct mr_text text,
                                    bool from_message);
/* Text values of a constant of this program, and of a name in the template. */
struct mr_jinja_value mr_jinja_literal(const char *text);
struct mr_jinja_value mr_jinja_name(struct mr_text name);
/* The bytes of a text, empty for any other value. */
struct mr_text mr_jinja_as_text(struct mr_jinja_value value);
struct mr_jinja_value mr_jinja_list_new(struct mr_jinja_run *run);
struct mr_jinja_value mr_jinja_list_of_kind(struct mr_jinja_run *run, enum mr_jinja_list_kind kind);
/* Zeroed memory of the run; NULL after the run has failed. */
void *mr_jinja_take(struct mr_jinja_run *run, size_t count, size_t size);
struct mr_jinja_value mr_jinja_dict_new(struct mr_jinja_run *run);
void mr_jinja_list_push(struct mr_jinja_run *run, struct mr_jinja_list *list,
                        struct mr_jinja_value value);
void mr_jinja_list_extend(struct mr_jinja_run *run, struct mr_jinja_list *list,
                          const struct mr_jinja_list *from);
/* The run fails when key is a list or a dictionary. */
void mr_jinja_dict_set(struct mr_jinja_run *run, struct mr_jinja_dict *dict,
                       struct mr_jinja_value key, struct mr_jinja_value value);
/* Adds a key that the dictionary does not have yet. Does not check that. */
void mr_jinja_dict_append(struct mr_jinja_run *run, struct mr_jinja_dict *dict,
                          struct mr_jinja_value key, struct mr_jinja_value value);
/* The value of key, NULL when the dictionary does not have it. */
struct mr_jinja_value *mr_jinja_dict_get(const struct mr_jinja_dict *dict,
                                         struct mr_jinja_value key);

bool mr_jinja_truth(struct mr_jinja_value value);
bool mr_jinja_is_number(struct mr_jinja_value value);
double mr_jinja_as_number(struct mr_jinja_value value);
bool mr_jinja_equal(struct mr_jinja_run *run, struct mr_jinja_value a, struct mr_jinja_value b);
/* <0, 0 or >0. The run fails unless both are numbers, text, or lists or tuples of these. */
int mr_jinja_compare(struct mr_jinja_run *run, struct mr_jinja_value a, struct mr_jinja_value b);
bool mr_jinja_contains(struct mr_jinja_run *run, struct mr_jinja_value container,
                       struct mr_jinja_value item);
/* Number of code points of a text, of items of a list or dictionary. */
size_t mr_jinja_length(struct mr_jinja_run *run, struct mr_jinja_value value);
/* The items of a list, the keys of a dictionary or the characters of a text, as a list; an empty
 * list for undefined, and for an iterator the second time. The caller must not change the list. */
struct mr_jinja_list *mr_jinja_iterate(struct mr_jinja_run *run, struct mr_jinja_value value);

/* Bytes [begin, end) of a text, with their marks. */
struct mr_jinja_value mr_jinja_slice_bytes(struct mr_jinja_value text, size_t begin, size_t end);
/* Byte offset of the code point with this index; the length of text when it has fewer of them. */
size_t mr_jinja_offset(struct mr_jinja_value text, size_t index);

#endif
