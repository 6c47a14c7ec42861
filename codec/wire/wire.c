#include "codec/wire/wire.h"

#include "codec/hash.h"
#include "codec/limits.h"
#include "codec/utf8.h"

#include <msgpack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- validator: one pass over the bytes, no allocation ---- */

/* The position of the msgpack validator in the record. */
struct scan {
    struct mr_text bytes;
    size_t at;
    size_t values;
    struct mr_error *err;
};

static enum mr_status bad(struct scan *scan, const char *reason)
{
    return mr_fail(scan->err, MR_MALFORMED, "msgpack %s at byte %zu", reason, scan->at);
}

static size_t remaining(const struct scan *scan)
{
    return scan->bytes.length - scan->at;
}

/* Kinds of msgpack values, as the first byte declares them. */
enum shape { SHAPE_FIXED, SHAPE_TEXT, SHAPE_BINARY, SHAPE_ARRAY, SHAPE_MAP, SHAPE_REFUSED };

struct head {
    enum shape shape;
    /* bytes of the big-endian length field after the first byte; 0: no such field */
    unsigned length_bytes;
    size_t length; /* number of payload bytes, elements or members */
};

static struct head head_of(unsigned char first)
{
    static const struct head table[32] = {
        [0x00] = {SHAPE_FIXED, 0, 0},   [0x01] = {SHAPE_REFUSED, 0, 0},
        [0x02] = {SHAPE_FIXED, 0, 0},   [0x03] = {SHAPE_FIXED, 0, 0},
        [0x04] = {SHAPE_BINARY, 1, 0},  [0x05] = {SHAPE_BINARY, 2, 0},
        [0x06] = {SHAPE_BINARY, 4, 0},  [0x07] = {SHAPE_REFUSED, 0, 0},
        [0x08] = {SHAPE_REFUSED, 0, 0}, [0x09] = {SHAPE_REFUSED, 0, 0},
        [0x0a] = {SHAPE_FIXED, 0, 4},   [0x0b] = {SHAPE_FIXED, 0, 8},
        [0x0c] = {SHAPE_FIXED, 0, 1},   [0x0d] = {SHAPE_FIXED, 0, 2},
        [0x0e] = {SHAPE_FIXED, 0, 4},   [0x0f] = {SHAPE_FIXED, 0, 8},
        [0x10] = {SHAPE_FIXED, 0, 1},   [0x11] = {SHAPE_FIXED, 0, 2},
        [0x12] = {SHAPE_FIXED, 0, 4},   [0x13] = {SHAPE_FIXED, 0, 8},
        [0x14] = {SHAPE_REFUSED, 0, 0}, [0x15] = {SHAPE_REFUSED, 0, 0},
        [0x16] = {SHAPE_REFUSED, 0, 0}, [0x17] = {SHAPE_REFUSED, 0, 0},
        [0x18] = {SHAPE_REFUSED, 0, 0}, [0x19] = {SHAPE_TEXT, 1, 0},
        [0x1a] = {SHAPE_TEXT, 2, 0},    [0x1b] = {SHAPE_TEXT, 4, 0},
        [0x1c] = {SHAPE_ARRAY, 2, 0},   [0x1d] = {SHAPE_ARRAY, 4, 0},
        [0x1e] = {SHAPE_MAP, 2, 0},     [0x1f] = {SHAPE_MAP, 4, 0},
    };
    if (first <= 0x7f || first >= 0xe0) return (struct head){SHAPE_FIXED, 0, 0};
    if (first <= 0x8f) return (struct head){SHAPE_MAP, 0, first & 0x0fu};
    if (first <= 0x9f) return (struct head){SHAPE_ARRAY, 0, first & 0x0fu};
    if (first <= 0xbf) return (struct head){SHAPE_TEXT, 0, first & 0x1fu};
    return table[first - 0xc0];
}

/* Reads the first byte and the length of a value into *head, and checks that the length fits the
 * bytes left. */
static enum mr_status take_head(struct scan *scan, struct head *head)
{
    if (remaining(scan) == 0) return bad(scan, "ends too early");
    *head = head_of((unsigned char)scan->bytes.bytes[scan->at]);
    if (head->shape == SHAPE_REFUSED) return bad(scan, "has an extension or unused type");
    if (remaining(scan) - 1 < head->length_bytes) return bad(scan, "ends too early");
    scan->at++;
    for (unsigned i = 0; i < head->length_bytes; i++)
        head->length = head->length << 8 | (unsigned char)scan->bytes.bytes[scan->at++];
    bool map = head->shape == SHAPE_MAP;
    if (head->length > remaining(scan) / (map ? 2 : 1))
        return bad(scan, "has a length above the bytes that are left");
    return MR_OK;
}

static enum mr_status scan_value(struct scan *scan, unsigned depth);

static enum mr_status scan_key(struct scan *scan)
{
    if (remaining(scan) > 0 &&
        head_of((unsigned char)scan->bytes.bytes[scan->at]).shape != SHAPE_TEXT)
        return bad(scan, "has a map key that is not text");
    return scan_value(scan, 0);
}

static enum mr_status scan_elements(struct scan *scan, const struct head *head, unsigned depth)
{
    if (depth >= MR_NESTING_MAX) return bad(scan, "is nested too deep");
    if (head->shape == SHAPE_MAP && head->length > MR_MEMBERS_MAX)
        return bad(scan, "has a map with too many members");
    for (size_t i = 0; i < head->length; i++) {
        enum mr_status status = head->shape == SHAPE_MAP ? scan_key(scan) : MR_OK;
        if (status == MR_OK) status = scan_value(scan, depth + 1);
        if (status != MR_OK) return status;
    }
    return MR_OK;
}

static enum mr_status scan_value(struct scan *scan, unsigned depth)
{
    struct head head;
    if (++scan->values > MR_NODES_MAX) return bad(scan, "has too many values");
    enum mr_status status = take_head(scan, &head);
    if (status != MR_OK) return status;
    if (head.shape == SHAPE_ARRAY || head.shape == SHAPE_MAP)
        return scan_elements(scan, &head, depth);
    struct mr_text payload = {scan->bytes.bytes + scan->at, head.length};
    if (head.shape == SHAPE_TEXT && !mr_utf8_is_valid(payload))
        return bad(scan, "has text that is not UTF-8");
    scan->at += head.length;
    return MR_OK;
}

/* ---- open records ---- */

/* slots of the hash table of keys; a power of two, and the table is at most half full */
#define KEY_SLOTS ((size_t)2 * MR_MEMBERS_MAX)

struct mr_wire {
    msgpack_unpacked unpacked;
    uint16_t key_slots[KEY_SLOTS]; /* hash table of one map's keys: index + 1 of the key, 0: free */
};

static struct mr_text key_of(const msgpack_object_map *map, size_t index)
{
    const msgpack_object_str *text = &map->ptr[index].key.via.str;
    return (struct mr_text){text->ptr, text->size};
}

/* Hashes a key. If an attacker chooses colliding keys, MR_MEMBERS_MAX limits the time. */
static size_t hash_of(struct mr_text text)
{
    uint64_t hash = mr_hash_bytes(MR_HASH_START, text.bytes, text.length);
    return (size_t)(hash ^ hash >> 32);
}

static bool keys_are_unique(struct mr_wire *wire, const msgpack_object_map *map)
{
    size_t slots = 8;
    while (slots < (size_t)map->size * 2)
        slots *= 2;
    memset(wire->key_slots, 0, slots * sizeof wire->key_slots[0]);
    for (size_t i = 0; i < map->size; i++) {
        struct mr_text key = key_of(map, i);
        size_t slot = hash_of(key) & (slots - 1);
        for (; wire->key_slots[slot]; slot = (slot + 1) & (slots - 1)) {
            if (mr_text_equal(key, key_of(map, wire->key_slots[slot] - 1u))) return false;
        }
        wire->key_slots[slot] = (uint16_t)(i + 1);
    }
    return true;
}

/* True if no map in the object repeats a key. Recursive; the validator has limited the depth. */
static bool all_keys_are_unique(struct mr_wire *wire, const msgpack_object *object)
{
    if (object->type == MSGPACK_OBJECT_ARRAY) {
        for (size_t i = 0; i < object->via.array.size; i++)
            if (!all_keys_are_unique(wire, &object->via.array.ptr[i])) return false;
        return true;
    }
    if (object->type != MSGPACK_OBJECT_MAP) return true;
    if (!keys_are_unique(wire, &object->via.map)) return false;
    for (size_t i = 0; i < object->via.map.size; i++)
        if (!all_keys_are_unique(wire, &object->via.map.ptr[i].val)) return false;
    return true;
}

static enum mr_status validate(struct mr_text bytes, struct mr_error *err)
{
    struct scan scan = {.bytes = bytes, .err = err};
    if (bytes.length && head_of((unsigned char)bytes.bytes[0]).shape != SHAPE_MAP)
        return bad(&scan, "is not a map");
    enum mr_status status = scan_value(&scan, 0);
    if (status == MR_OK && remaining(&scan) > 0) return bad(&scan, "has bytes after the record");
    return status;
}

enum mr_status mr_wire_open(struct mr_wire **out, struct mr_text bytes, struct mr_error *err)
{
    *out = NULL;
    enum mr_status status = validate(bytes, err);
    if (status != MR_OK) return status;
    struct mr_wire *wire = malloc(sizeof *wire);
    if (!wire) return mr_fail(err, MR_NOMEM, "no memory to open a record");
    msgpack_unpacked_init(&wire->unpacked);
    size_t offset = 0;
    msgpack_unpack_return rc =
        msgpack_unpack_next(&wire->unpacked, bytes.bytes, bytes.length, &offset);
    if (rc != MSGPACK_UNPACK_SUCCESS || offset != bytes.length) {
        status = rc == MSGPACK_UNPACK_NOMEM_ERROR
                     ? mr_fail(err, MR_NOMEM, "no memory for a record's values")
                     : mr_fail(err, MR_MALFORMED, "the msgpack library rejects the record");
        goto fail;
    }
    if (!all_keys_are_unique(wire, &wire->unpacked.data)) {
        status = mr_fail(err, MR_MALFORMED, "msgpack has a key twice in one map");
        goto fail;
    }
    *out = wire;
    return MR_OK;
fail:
    mr_wire_close(wire);
    return status;
}

void mr_wire_close(struct mr_wire *wire)
{
    if (!wire) return;
    msgpack_unpacked_destroy(&wire->unpacked);
    free(wire);
}

bool mr_wire_raw_member(struct mr_text bytes, const char *name, struct mr_text *raw)
{
    struct scan scan = {.bytes = bytes};
    struct head map;
    if (take_head(&scan, &map) != MR_OK || map.shape != SHAPE_MAP) return false;
    for (size_t i = 0; i < map.length; i++) {
        struct head key;
        if (take_head(&scan, &key) != MR_OK) return false;
        struct mr_text text = {bytes.bytes + scan.at, key.length};
        scan.at += key.length;
        size_t start = scan.at;
        if (scan_value(&scan, 1) != MR_OK) return false;
        if (!mr_text_is(text, name)) continue;
        *raw = mr_text_part(bytes, start, scan.at);
        return true;
    }
    return false;
}

/* ---- values over the library's objects ---- */

static enum mr_value_kind wire_kind(const void *node)
{
    switch (((const msgpack_object *)node)->type) {
    case MSGPACK_OBJECT_BOOLEAN:
        return MR_VALUE_BOOL;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        return ((const msgpack_object *)node)->via.u64 > INT64_MAX ? MR_VALUE_BIG : MR_VALUE_INT;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        return MR_VALUE_INT;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        return MR_VALUE_FLOAT;
    case MSGPACK_OBJECT_STR:
        return MR_VALUE_TEXT;
    case MSGPACK_OBJECT_BIN:
        return MR_VALUE_BINARY;
    case MSGPACK_OBJECT_ARRAY:
        return MR_VALUE_ARRAY;
    case MSGPACK_OBJECT_MAP:
        return MR_VALUE_MAP;
    default:
        return MR_VALUE_NULL;
    }
}

static int64_t wire_integer(const void *node)
{
    const msgpack_object *object = node;
    if (object->type == MSGPACK_OBJECT_BOOLEAN) return object->via.boolean;
    return object->via.i64;
}

static double wire_number(const void *node)
{
    const msgpack_object *object = node;
    return wire_kind(node) == MR_VALUE_FLOAT ? object->via.f64 : (double)object->via.i64;
}

static struct mr_text wire_text(const void *node)
{
    const msgpack_object *object = node;
    return (struct mr_text){object->via.str.ptr, object->via.str.size};
}

static struct mr_text wire_big(const void *node, char scratch[24])
{
    const unsigned long long value = ((const msgpack_object *)node)->via.u64;
    return (struct mr_text){scratch, (size_t)snprintf(scratch, 24, "%llu", value)};
}

static const struct mr_value_ops wire_ops;

static size_t wire_count(const void *node)
{
    const msgpack_object *object = node;
    return object->type == MSGPACK_OBJECT_MAP ? object->via.map.size : object->via.array.size;
}

static struct mr_value wire_at(const void *node, size_t index)
{
    const msgpack_object *object = node;
    return (struct mr_value){&wire_ops, &object->via.array.ptr[index]};
}

static bool wire_next(const void *node, struct mr_member *member)
{
    const msgpack_object_map *map = &((const msgpack_object *)node)->via.map;
    if (member->index == map->size) return false;
    member->name = key_of(map, member->index);
    member->value = (struct mr_value){&wire_ops, &map->ptr[member->index].val};
    member->index++;
    return true;
}

static const struct mr_value_ops wire_ops = {wire_kind, wire_integer, wire_number, wire_text,
                                             wire_big,  wire_count,   wire_at,     wire_next};

struct mr_value mr_wire_root(const struct mr_wire *wire)
{
    return (struct mr_value){&wire_ops, &wire->unpacked.data};
}

/* ---- writing ---- */

/* Callback of the msgpack library's packer: appends a piece of output. */
static int append(void *context, const char *bytes, size_t length)
{
    struct mr_wire_buffer *buffer = context;
    if (buffer->status != MR_OK) return -1;
    if (mr_buffer_append(&buffer->bytes, (struct mr_text){bytes, length})) return 0;
    buffer->status = mr_buffer_error(&buffer->bytes, length);
    return -1;
}

/* Appends one value to the buffer with a pack function of the msgpack library. */
#define PACK(buffer, function, ...)                                                                \
    do {                                                                                           \
        msgpack_packer packer;                                                                     \
        msgpack_packer_init(&packer, (buffer), append);                                            \
        function(&packer, __VA_ARGS__);                                                            \
    } while (0)

void mr_wire_put_null(struct mr_wire_buffer *buffer)
{
    append(buffer, "\xc0", 1);
}

void mr_wire_put_bool(struct mr_wire_buffer *buffer, bool value)
{
    append(buffer, value ? "\xc3" : "\xc2", 1);
}

void mr_wire_put_int(struct mr_wire_buffer *buffer, int64_t value)
{
    PACK(buffer, msgpack_pack_int64, value);
}

void mr_wire_put_uint(struct mr_wire_buffer *buffer, uint64_t value)
{
    PACK(buffer, msgpack_pack_uint64, value);
}

void mr_wire_put_double(struct mr_wire_buffer *buffer, double value)
{
    PACK(buffer, msgpack_pack_double, value);
}

void mr_wire_put_float(struct mr_wire_buffer *buffer, float value)
{
    PACK(buffer, msgpack_pack_float, value);
}

void mr_wire_put_text(struct mr_wire_buffer *buffer, struct mr_text text)
{
    PACK(buffer, msgpack_pack_str, text.length);
    append(buffer, text.bytes, text.length);
}

void mr_wire_put_array(struct mr_wire_buffer *buffer, size_t count)
{
    PACK(buffer, msgpack_pack_array, count);
}

void mr_wire_put_map(struct mr_wire_buffer *buffer, size_t count)
{
    PACK(buffer, msgpack_pack_map, count);
}

void mr_wire_put_raw(struct mr_wire_buffer *buffer, struct mr_text msgpack)
{
    append(buffer, msgpack.bytes, msgpack.length);
}
