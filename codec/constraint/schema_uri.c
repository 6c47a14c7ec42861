/* Resolution of a URI reference against a base URI: RFC 3986, section 5.2. */
#include "codec/constraint/schema_index.h"

#include <string.h>

/* A URI in parts. A part that is missing has the length 0; delimiters belong to their part. */
struct parts {
    struct mr_text scheme;    /* with its colon */
    struct mr_text authority; /* with its two slashes */
    struct mr_text path;
    struct mr_text query; /* with its question mark */
};

static size_t find(struct mr_text text, size_t from, const char *delimiters)
{
    while (from < text.length && !strchr(delimiters, text.bytes[from]))
        from++;
    return from;
}

static struct parts split(struct mr_text uri)
{
    struct parts parts;
    size_t at = 0, end = find(uri, 0, ":/?");
    if (end < uri.length && end > 0 && uri.bytes[end] == ':') at = end + 1;
    parts.scheme = mr_text_part(uri, 0, at);
    end = at;
    if (at + 2 <= uri.length && memcmp(uri.bytes + at, "//", 2) == 0) end = find(uri, at + 2, "/?");
    parts.authority = mr_text_part(uri, at, end);
    at = end;
    end = find(uri, at, "?");
    parts.path = mr_text_part(uri, at, end);
    parts.query = mr_text_part(uri, end, uri.length);
    return parts;
}

static void put(char *out, size_t *length, struct mr_text text)
{
    if (text.length > 0) memcpy(out + *length, text.bytes, text.length);
    *length += text.length;
}

/* Removes the segments . and .. of the path that begins at `begin`. */
static void remove_dots(char *out, size_t begin, size_t *length)
{
    size_t to = begin;
    for (size_t at = begin; at < *length;) {
        size_t end = at;
        while (end < *length && out[end] != '/')
            end++;
        const size_t dots = end - at;
        const bool is_last = end == *length;
        if (dots == 2 && out[at] == '.' && out[at + 1] == '.') {
            if (to > begin + 1) to--;
            while (to > begin && out[to - 1] != '/')
                to--;
        } else if (dots != 1 || out[at] != '.') {
            memmove(out + to, out + at, dots + !is_last);
            to += dots + !is_last;
        }
        at = end + 1;
    }
    *length = to;
}

struct mr_text mr_schema_resolve_uri(struct mr_expr_builder *builder, struct mr_text base_uri,
                                     struct mr_text reference)
{
    const struct parts base = split(base_uri), given = split(reference);
    const size_t size = base_uri.length + reference.length + 2;
    char *out = mr_expr_take(builder, size, 1);
    size_t length = 0;
    if (!out || !mr_expr_work(builder, (uint32_t)size)) return (struct mr_text){"", 0};
    put(out, &length, given.scheme.length > 0 ? given.scheme : base.scheme);
    const bool absolute = given.scheme.length + given.authority.length > 0;
    put(out, &length, absolute ? given.authority : base.authority);
    const size_t path = length;
    if (!absolute && given.path.length == 0) {
        put(out, &length, base.path);
    } else {
        size_t kept = base.path.length;
        while (kept > 0 && base.path.bytes[kept - 1] != '/')
            kept--;
        if (!absolute && given.path.bytes[0] != '/') {
            put(out, &length, mr_text_part(base.path, 0, kept));
            if (base.path.length == 0 && base.authority.length > 0) out[length++] = '/';
        }
        put(out, &length, given.path);
        remove_dots(out, path, &length);
    }
    const bool same_path = !absolute && given.path.length == 0 && given.query.length == 0;
    put(out, &length, same_path ? base.query : given.query);
    return (struct mr_text){out, length};
}
