#include "codec/grammar/expr.h"

#include "codec/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_LIMIT (1u << 30) /* the size of an expression saturates here */

static const struct mr_expr never_expr = {.kind = MR_EXPR_NEVER, .size = 1};
static const struct mr_expr empty_expr = {.kind = MR_EXPR_BYTES, .nullable = true, .size = 1};

/* ---- the builder ---- */

enum mr_status mr_expr_builder_init(struct mr_expr_builder *builder, struct mr_error *err)
{
    *builder = (struct mr_expr_builder){.status = MR_OK, .err = err};
    builder->arena = mr_arena_create(MR_GRAMMAR_BUILD_BYTES_MAX);
    if (!builder->arena) return mr_fail(err, MR_NOMEM, "no memory to compile a grammar");
    return MR_OK;
}

void mr_expr_builder_drop(struct mr_expr_builder *builder)
{
    mr_arena_destroy(builder->arena);
    free(builder->rules);
    *builder = (struct mr_expr_builder){0};
}

static enum mr_status fail(struct mr_expr_builder *builder, enum mr_status status, const char *fmt,
                           va_list arguments)
{
    char sentence[MR_ERROR_DETAIL_BYTES];
    if (builder->status != MR_OK) return builder->status;
    vsnprintf(sentence, sizeof sentence, fmt, arguments);
    builder->status = status;
    return mr_fail(builder->err, status, "%s", sentence);
}

enum mr_status mr_expr_fail(struct mr_expr_builder *builder, enum mr_status status, const char *fmt,
                            ...)
{
    va_list arguments;
    va_start(arguments, fmt);
    enum mr_status first = fail(builder, status, fmt, arguments);
    va_end(arguments);
    return first;
}

void mr_expr_fail_limit(struct mr_expr_builder *builder, const char *fmt, ...)
{
    va_list arguments;
    if (builder->status != MR_OK) return;
    builder->over_limit = true;
    va_start(arguments, fmt);
    fail(builder, MR_INVALID_REQUEST, fmt, arguments);
    va_end(arguments);
}

bool mr_expr_work(struct mr_expr_builder *builder, uint32_t units)
{
    if (builder->status != MR_OK) return false;
    if (units <= MR_GRAMMAR_WORK_MAX - builder->work) {
        builder->work += units;
        return true;
    }
    mr_expr_fail_limit(builder, "too complex to compile in time");
    return false;
}

void *mr_expr_take(struct mr_expr_builder *builder, size_t count, size_t size)
{
    if (builder->status != MR_OK) return NULL;
    void *taken = mr_arena_take_array(builder->arena, count, size);
    if (!taken)
        mr_expr_fail_limit(builder, "needs more than %zu MiB to compile",
                           MR_GRAMMAR_BUILD_BYTES_MAX >> 20);
    return taken;
}

uint32_t mr_expr_rule_add(struct mr_expr_builder *builder, const char *name)
{
    if (builder->rule_count == builder->rule_capacity) {
        uint32_t capacity = builder->rule_capacity ? 2 * builder->rule_capacity : 64;
        struct mr_expr_rule *rules = NULL;
        if (capacity <= MR_GRAMMAR_RULES_MAX)
            rules = realloc(builder->rules, capacity * sizeof *rules);
        if (!rules) {
            mr_expr_fail_limit(builder, "needs more than %u rules", MR_GRAMMAR_RULES_MAX);
            return 0;
        }
        builder->rules = rules;
        builder->rule_capacity = capacity;
    }
    const void *origin = builder->rule_count ? builder->rules[builder->rule].origin : NULL;
    builder->rules[builder->rule_count] = (struct mr_expr_rule){.name = name, .origin = origin};
    return builder->rule_count++;
}

void mr_expr_rule_define(struct mr_expr_builder *builder, uint32_t rule, const struct mr_expr *body)
{
    if (builder->status != MR_OK) return;
    MR_ASSERT(rule < builder->rule_count && !builder->rules[rule].body);
    builder->rules[rule].body = body;
}

/* ---- expressions ---- */

const struct mr_expr *mr_expr_never(void)
{
    return &never_expr;
}

const struct mr_expr *mr_expr_empty(void)
{
    return &empty_expr;
}

static struct mr_expr *make(struct mr_expr_builder *builder, enum mr_expr_kind kind)
{
    if (!mr_expr_work(builder, 1)) return NULL;
    struct mr_expr *expr = mr_expr_take(builder, 1, sizeof *expr);
    if (expr) expr->kind = kind;
    return expr;
}

static uint32_t add_size(uint64_t one, uint64_t other)
{
    return one + other > SIZE_LIMIT ? SIZE_LIMIT : (uint32_t)(one + other);
}

const struct mr_expr *mr_expr_bytes(struct mr_expr_builder *builder, struct mr_text bytes)
{
    if (bytes.length == 0) return &empty_expr;
    struct mr_expr *expr = make(builder, MR_EXPR_BYTES);
    char *copy = mr_expr_take(builder, bytes.length, 1);
    if (!expr || !copy || !mr_expr_work(builder, (uint32_t)bytes.length)) return &never_expr;
    memcpy(copy, bytes.bytes, bytes.length);
    expr->bytes = (struct mr_text){copy, bytes.length};
    expr->size = add_size(bytes.length, 0);
    return expr;
}

const struct mr_expr *mr_expr_word(struct mr_expr_builder *builder, const char *word)
{
    return mr_expr_bytes(builder, (struct mr_text){word, strlen(word)});
}

const struct mr_expr *mr_expr_range(struct mr_expr_builder *builder, unsigned low, unsigned high)
{
    MR_ASSERT(low <= high && high < 256);
    struct mr_expr *expr = make(builder, MR_EXPR_RANGE);
    if (!expr) return &never_expr;
    expr->low = (unsigned char)low;
    expr->high = (unsigned char)high;
    expr->size = 1;
    return expr;
}

/* Makes an expression with copies of the pointers to its items. */
static struct mr_expr *make_parent(struct mr_expr_builder *builder, enum mr_expr_kind kind,
                                   const struct mr_expr *const *items, uint32_t count)
{
    struct mr_expr *expr = make(builder, kind);
    const struct mr_expr **copy = mr_expr_take(builder, count, sizeof *copy);
    if (!expr || !copy || !mr_expr_work(builder, count)) return NULL;
    memcpy(copy, items, count * sizeof *copy);
    expr->items = copy;
    expr->count = count;
    for (uint32_t i = 0; i < count; i++) {
        expr->has_ref |= items[i]->has_ref;
        expr->size = add_size(expr->size, (uint64_t)items[i]->size + 1);
    }
    return expr;
}

const struct mr_expr *mr_expr_seq(struct mr_expr_builder *builder,
                                  const struct mr_expr *const *items, uint32_t count)
{
    bool nullable = true;
    for (uint32_t i = 0; i < count; i++) {
        if (items[i]->kind == MR_EXPR_NEVER) return &never_expr;
        nullable = nullable && items[i]->nullable;
    }
    if (count == 0) return &empty_expr;
    if (count == 1) return items[0];
    struct mr_expr *expr = make_parent(builder, MR_EXPR_SEQ, items, count);
    if (!expr) return &never_expr;
    expr->nullable = nullable;
    return expr;
}

const struct mr_expr *mr_expr_alt(struct mr_expr_builder *builder,
                                  const struct mr_expr *const *items, uint32_t count)
{
    uint32_t kept = 0;
    const struct mr_expr **live = mr_expr_take(builder, count, sizeof *live);
    if (!live) return &never_expr;
    bool nullable = false;
    for (uint32_t i = 0; i < count; i++) {
        if (items[i]->kind == MR_EXPR_NEVER) continue;
        nullable = nullable || items[i]->nullable;
        live[kept++] = items[i];
    }
    if (kept == 0) return &never_expr;
    if (kept == 1) return live[0];
    struct mr_expr *expr = make_parent(builder, MR_EXPR_ALT, live, kept);
    if (!expr) return &never_expr;
    expr->nullable = nullable;
    return expr;
}

const struct mr_expr *mr_expr_pair(struct mr_expr_builder *builder, const struct mr_expr *first,
                                   const struct mr_expr *second)
{
    const struct mr_expr *items[2] = {first, second};
    return mr_expr_seq(builder, items, 2);
}

const struct mr_expr *mr_expr_either(struct mr_expr_builder *builder, const struct mr_expr *one,
                                     const struct mr_expr *other)
{
    const struct mr_expr *items[2] = {one, other};
    return mr_expr_alt(builder, items, 2);
}

const struct mr_expr *mr_expr_repeat(struct mr_expr_builder *builder, const struct mr_expr *item,
                                     uint32_t min, uint32_t max)
{
    if (max > MR_EXPR_COUNT_MAX) max = MR_EXPR_UNBOUNDED;
    if (min > max || (item->kind == MR_EXPR_NEVER && min > 0)) return &never_expr;
    if (max == 0 || item->kind == MR_EXPR_NEVER || item == &empty_expr) return &empty_expr;
    if (min == 1 && max == 1) return item;
    if (min > MR_EXPR_COUNT_MAX) {
        mr_expr_fail(builder, MR_UNSUPPORTED, "a repetition of more than %u is not supported",
                     MR_EXPR_COUNT_MAX);
        return &never_expr;
    }
    struct mr_expr *expr = make_parent(builder, MR_EXPR_REPEAT, &item, 1);
    if (!expr) return &never_expr;
    uint64_t times = max == MR_EXPR_UNBOUNDED ? (uint64_t)min + 1 : max;
    expr->min = min;
    expr->max = max;
    expr->nullable = min == 0 || item->nullable;
    expr->size = add_size(((uint64_t)item->size + 1) * times, 1);
    return expr;
}

const struct mr_expr *mr_expr_counted(struct mr_expr_builder *builder, uint32_t item, uint32_t min,
                                      uint32_t max)
{
    if (max > MR_EXPR_COUNT_MAX) max = MR_EXPR_UNBOUNDED;
    if (min > max || min > MR_EXPR_COUNT_MAX) return &never_expr;
    if (max == 0) return &empty_expr;
    uint32_t rule = mr_expr_rule_add(builder, "repetition");
    if (builder->status != MR_OK) return &never_expr;
    builder->rules[rule].counted = true;
    builder->rules[rule].item = item;
    builder->rules[rule].min = min;
    builder->rules[rule].max = max;
    return mr_expr_ref(builder, rule);
}

const struct mr_expr *mr_expr_list(struct mr_expr_builder *builder,
                                   const struct mr_expr *const *items, const bool *optional,
                                   uint32_t count, uint32_t min, uint32_t max)
{
    if (min > count || min > max) return &never_expr;
    struct mr_expr *expr = make_parent(builder, MR_EXPR_LIST, items, count + 3);
    if (!expr) return &never_expr;
    expr->count = count;
    expr->optional = optional;
    expr->min = min;
    expr->max = max >= count ? MR_EXPR_UNBOUNDED : max;
    expr->nullable = min == 0 && items[count + 1]->nullable;
    for (uint32_t i = 0; i < count; i++)
        expr->nullable = expr->nullable && optional[i];
    return expr;
}

const struct mr_expr *mr_expr_multiple(struct mr_expr_builder *builder, uint32_t divisor,
                                       uint32_t places)
{
    struct mr_expr *expr = make(builder, MR_EXPR_MULTIPLE);
    if (!expr) return &never_expr;
    expr->min = divisor;
    expr->max = places;
    expr->size = add_size((uint64_t)divisor * (places + 2), 0);
    expr->nullable = true;
    return expr;
}

const struct mr_expr *mr_expr_ref(struct mr_expr_builder *builder, uint32_t rule)
{
    struct mr_expr *expr = make(builder, MR_EXPR_REF);
    if (!expr) return &never_expr;
    expr->rule = rule;
    expr->has_ref = true;
    expr->size = 1;
    return expr;
}

static const struct mr_expr *make_product(struct mr_expr_builder *builder, enum mr_expr_kind kind,
                                          const struct mr_expr *one, const struct mr_expr *other)
{
    const struct mr_expr *items[2] = {one, other};
    MR_ASSERT(!one->has_ref && !other->has_ref);
    struct mr_expr *expr = make_parent(builder, kind, items, 2);
    if (!expr) return &never_expr;
    expr->nullable = one->nullable && (kind == MR_EXPR_AND) == other->nullable;
    return expr;
}

const struct mr_expr *mr_expr_and(struct mr_expr_builder *builder, const struct mr_expr *one,
                                  const struct mr_expr *other)
{
    if (one->kind == MR_EXPR_NEVER || other->kind == MR_EXPR_NEVER) return &never_expr;
    return make_product(builder, MR_EXPR_AND, one, other);
}

const struct mr_expr *mr_expr_minus(struct mr_expr_builder *builder, const struct mr_expr *from,
                                    const struct mr_expr *without)
{
    if (from->kind == MR_EXPR_NEVER || without->kind == MR_EXPR_NEVER) return from;
    return make_product(builder, MR_EXPR_MINUS, from, without);
}
