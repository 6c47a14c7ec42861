#include "ops/weights/tensor_copies.h"

#include "ops/cpu_kernels/parallel.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LINE_BYTES 64u
#define PART_BYTES ((size_t)1 << 18) /* read by a thread at a time */
#define HUGE_BYTES ((size_t)2 << 20)

struct copy {
    const struct mr_stored_tensor *of; /* NULL: free */
    struct mr_stored_tensor tensor;
    struct mr_quantized quantized; /* of a tensor in pieces */
    unsigned char *memory;
    size_t capacity;
};

struct mr_tensor_copies {
    struct copy **list; /* [count] */
    size_t count, room;
};

enum mr_status mr_tensor_copies_create(struct mr_tensor_copies **out, struct mr_error *err)
{
    *out = calloc(1, sizeof(**out));
    return *out ? MR_OK : mr_fail(err, MR_NOMEM, "no memory for copies of tensors");
}

void mr_tensor_copies_destroy(struct mr_tensor_copies *copies)
{
    if (!copies) return;
    for (size_t i = 0; i < copies->count; i++) {
        free(copies->list[i]->memory);
        free(copies->list[i]);
    }
    free(copies->list);
    free(copies);
}

void mr_tensor_copies_recycle(struct mr_tensor_copies *copies)
{
    for (size_t i = 0; i < copies->count; i++)
        copies->list[i]->of = NULL;
}

/* ---- memory ---- */

static size_t whole_lines(uint64_t bytes)
{
    return (size_t)((bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES);
}

static size_t bytes_of(const struct mr_stored_tensor *tensor)
{
    size_t bytes = 0;
    if (!tensor->quantized) return whole_lines(tensor->size_bytes);
    for (uint32_t i = 0; i < MR_QUANTIZED_PIECES; i++)
        if (tensor->quantized->pieces[i].bytes)
            bytes += whole_lines(tensor->quantized->pieces[i].size_bytes);
    return bytes;
}

static struct copy *add_copy(struct mr_tensor_copies *copies, size_t bytes)
{
    if (copies->count == copies->room) {
        const size_t room = copies->room * 2 + 16;
        struct copy **list = realloc(copies->list, room * sizeof(struct copy *));
        if (!list) return NULL;
        copies->list = list;
        copies->room = room;
    }
    const size_t align = bytes >= HUGE_BYTES ? HUGE_BYTES : LINE_BYTES;
    const size_t capacity = (bytes + align) / align * align;
    struct copy *copy = calloc(1, sizeof(*copy));
    if (copy) copy->memory = aligned_alloc(align, capacity);
    if (!copy || !copy->memory) {
        free(copy);
        return NULL;
    }
    copy->capacity = capacity;
    if (align == HUGE_BYTES) (void)madvise(copy->memory, capacity, MADV_HUGEPAGE); /* a hint */
    copies->list[copies->count++] = copy;
    return copy;
}

/* Returns the smallest free copy with room for the bytes, or a new one; NULL: no memory. */
static struct copy *find_room(struct mr_tensor_copies *copies, size_t bytes)
{
    struct copy *best = NULL;
    for (size_t i = 0; i < copies->count; i++) {
        struct copy *copy = copies->list[i];
        if (!copy->of && copy->capacity >= bytes && (!best || copy->capacity < best->capacity))
            best = copy;
    }
    return best ? best : add_copy(copies, bytes);
}

/* ---- reading ---- */

struct reading {
    const struct mr_mapped_file *file;
    size_t first, size;
    unsigned char *out;
    atomic_bool failed;
};

static void read_parts(void *context, size_t begin, size_t end)
{
    struct reading *reading = context;
    const size_t at = begin * PART_BYTES, last = end * PART_BYTES;
    const size_t size = (last < reading->size ? last : reading->size) - at;
    if (mr_mapped_file_read(reading->file, reading->first + at, size, reading->out + at, NULL) !=
        MR_OK)
        atomic_store(&reading->failed, true);
}

static enum mr_status read_bytes(const struct mr_mapped_file *file, const unsigned char *bytes,
                                 uint64_t size, unsigned char *out, struct mr_error *err)
{
    struct reading reading = {
        .file = file, .first = (size_t)(bytes - file->bytes), .size = (size_t)size, .out = out};
    mr_parallel_for((reading.size + PART_BYTES - 1) / PART_BYTES, 1, read_parts, &reading);
    if (!atomic_load(&reading.failed)) return MR_OK;
    return mr_mapped_file_read(file, reading.first, reading.size, out, err); /* for the sentence */
}

static enum mr_status read_tensor(struct copy *copy, const struct mr_stored_tensor *tensor,
                                  struct mr_error *err)
{
    unsigned char *out = copy->memory;
    copy->tensor = *tensor;
    if (!tensor->quantized) {
        copy->tensor.bytes = out;
        return read_bytes(tensor->file, tensor->bytes, tensor->size_bytes, out, err);
    }
    copy->quantized = *tensor->quantized;
    copy->tensor.quantized = &copy->quantized;
    for (uint32_t i = 0; i < MR_QUANTIZED_PIECES; i++) {
        const struct mr_quantized_piece *piece = &tensor->quantized->pieces[i];
        if (!piece->bytes) continue;
        copy->quantized.pieces[i].bytes = out;
        enum mr_status status = read_bytes(piece->file, piece->bytes, piece->size_bytes, out, err);
        if (status != MR_OK) return status;
        out += whole_lines(piece->size_bytes);
    }
    return MR_OK;
}

/* Whether the bytes of a tensor, or of its pieces, are in a file. */
static bool is_in_file(const struct mr_stored_tensor *tensor)
{
    if (!tensor->quantized) return tensor->file != NULL;
    for (uint32_t i = 0; i < MR_QUANTIZED_PIECES; i++)
        if (tensor->quantized->pieces[i].bytes) return tensor->quantized->pieces[i].file != NULL;
    return false;
}

enum mr_status mr_tensor_copies_take(struct mr_tensor_copies *copies,
                                     const struct mr_stored_tensor *tensor,
                                     const struct mr_stored_tensor **out, struct mr_error *err)
{
    *out = tensor;
    if (!is_in_file(tensor)) return MR_OK;
    for (size_t i = 0; i < copies->count; i++)
        if (copies->list[i]->of == tensor) {
            *out = &copies->list[i]->tensor;
            return MR_OK;
        }
    struct copy *copy = find_room(copies, bytes_of(tensor));
    if (!copy)
        return mr_fail(err, MR_NOMEM, "no memory for a copy of tensor \"%.*s\"",
                       mr_stored_name_shown(tensor->name), tensor->name.bytes);
    enum mr_status status = read_tensor(copy, tensor, err);
    if (status != MR_OK) return status;
    copy->of = tensor;
    *out = &copy->tensor;
    return MR_OK;
}
