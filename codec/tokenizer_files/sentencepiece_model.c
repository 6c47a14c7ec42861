#include "codec/tokenizer_files/sentencepiece_model.h"

#include "codec/tokenizer/vocab.h"
#include "codec/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- wire format ---- */

enum wire_type { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

struct field {
    uint64_t number;
    enum wire_type type;
    uint64_t value;       /* value of the types VARINT, FIXED64 and FIXED32 */
    struct mr_text bytes; /* of type BYTES */
};

struct cursor {
    struct mr_text left; /* bytes not read yet */
    bool bad;            /* the message is damaged */
};

static uint64_t read_varint(struct cursor *cursor)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 10 && i < cursor->left.length; i++) {
        unsigned char byte = (unsigned char)cursor->left.bytes[i];
        if (i < 9 || byte < 2) value |= (uint64_t)(byte & 0x7fu) << 7 * i;
        if (byte >= 0x80) continue;
        cursor->left = mr_text_part(cursor->left, i + 1, cursor->left.length);
        return value;
    }
    cursor->bad = true;
    return 0;
}

static uint64_t read_fixed(struct cursor *cursor, size_t count)
{
    uint64_t value = 0;
    if (cursor->left.length < count) {
        cursor->bad = true;
        return 0;
    }
    for (size_t i = 0; i < count; i++)
        value |= (uint64_t)(unsigned char)cursor->left.bytes[i] << 8 * i;
    cursor->left = mr_text_part(cursor->left, count, cursor->left.length);
    return value;
}

static struct mr_text read_bytes(struct cursor *cursor)
{
    uint64_t length = read_varint(cursor);
    if (cursor->bad || length > cursor->left.length) {
        cursor->bad = true;
        return (struct mr_text){"", 0};
    }
    struct mr_text bytes = mr_text_part(cursor->left, 0, (size_t)length);
    cursor->left = mr_text_part(cursor->left, (size_t)length, cursor->left.length);
    return bytes;
}

/* Reads the next field; false at the end of the message and when it is damaged. */
static bool next_field(struct cursor *cursor, struct field *field)
{
    if (cursor->bad || cursor->left.length == 0) return false;
    uint64_t tag = read_varint(cursor);
    *field =
        (struct field){.number = tag >> 3, .type = (enum wire_type)(tag & 7), .bytes = {"", 0}};
    switch (field->type) {
    case VARINT:
        field->value = read_varint(cursor);
        break;
    case FIXED64:
        field->value = read_fixed(cursor, 8);
        break;
    case FIXED32:
        field->value = read_fixed(cursor, 4);
        break;
    case BYTES:
        field->bytes = read_bytes(cursor);
        break;
    default: /* groups, which the format does not have */
        cursor->bad = true;
    }
    return !cursor->bad;
}

static enum mr_status damaged(struct mr_error *err)
{
    return mr_fail(err, MR_BAD_FILE, "not a SentencePiece model, or damaged");
}

/* ---- messages ---- */

/* The special tokens named in the trainer's part of the file. */
struct names {
    struct mr_text bos, eos;
};

static float as_float(uint64_t bits)
{
    uint32_t word = (uint32_t)bits;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

/* Field numbers of message SentencePiece. */
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };

static enum mr_status read_token(struct mr_sentencepiece_model *model, struct mr_text message,
                                 struct mr_error *err)
{
    /* types of the file: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte */
    static const enum mr_token_kind kinds[] = {
        MR_TOKEN_NORMAL,       MR_TOKEN_NORMAL, MR_TOKEN_CONTROL, MR_TOKEN_CONTROL,
        MR_TOKEN_USER_DEFINED, MR_TOKEN_UNUSED, MR_TOKEN_BYTE};
    struct cursor cursor = {message, false};
    struct field field;
    uint32_t id = model->token_count++;
    uint64_t type = 1;
    model->tokens[id] = (struct mr_text){"", 0};
    while (next_field(&cursor, &field)) {
        if (field.number == PIECE_TEXT && field.type == BYTES) model->tokens[id] = field.bytes;
        if (field.number == PIECE_SCORE && field.type == FIXED32)
            model->scores[id] = as_float(field.value);
        if (field.number == PIECE_TYPE && field.type == VARINT) type = field.value;
    }
    if (cursor.bad) return damaged(err);
    if (type == 0 || type >= sizeof kinds / sizeof kinds[0])
        return mr_fail(err, MR_BAD_FILE, "token %u has the unknown type %llu", id,
                       (unsigned long long)type);
    if (model->tokens[id].length == 0 || !mr_utf8_is_valid(model->tokens[id]))
        return mr_fail(err, MR_BAD_FILE, "token %u is empty or not UTF-8", id);
    if (!isfinite(model->scores[id]))
        return mr_fail(err, MR_BAD_FILE, "token %u has no finite score", id);
    model->kinds[id] = kinds[type];
    if (type != 2) return MR_OK;
    if (model->unk_id != MR_TOKEN_NONE)
        return mr_fail(err, MR_BAD_FILE, "tokens %u and %u are both unknown tokens", model->unk_id,
                       id);
    model->unk_id = id;
    return MR_OK;
}

/* Field numbers of message TrainerSpec. */
enum { MODEL_TYPE = 3, SPACE_AS_SUFFIX = 24, BYTE_FALLBACK = 35, BOS_PIECE = 46, EOS_PIECE = 47 };

static enum mr_status read_trainer(struct mr_sentencepiece_model *model, struct names *names,
                                   struct mr_text message, struct mr_error *err)
{
    struct cursor cursor = {message, false};
    struct field field;
    while (next_field(&cursor, &field)) {
        if (field.type == VARINT && field.number == MODEL_TYPE)
            model->type = (enum mr_sentencepiece_type)(field.value & 0xff);
        if (field.type == VARINT && field.number == SPACE_AS_SUFFIX)
            model->space_as_suffix = field.value != 0;
        if (field.type == VARINT && field.number == BYTE_FALLBACK)
            model->byte_fallback = field.value != 0;
        if (field.type == BYTES && field.number == BOS_PIECE) names->bos = field.bytes;
        if (field.type == BYTES && field.number == EOS_PIECE) names->eos = field.bytes;
    }
    return cursor.bad ? damaged(err) : MR_OK;
}

/* Field numbers of message NormalizerSpec. */
enum { CHARSMAP = 2, ADD_DUMMY_PREFIX = 3, REMOVE_EXTRA_SPACES = 4, ESCAPE_SPACES = 5 };

static enum mr_status read_normalizer(struct mr_sentencepiece_model *model, struct mr_text message,
                                      struct mr_error *err)
{
    struct cursor cursor = {message, false};
    struct field field;
    while (next_field(&cursor, &field)) {
        if (field.type == BYTES && field.number == CHARSMAP) model->charsmap = field.bytes;
        if (field.type != VARINT) continue;
        if (field.number == ADD_DUMMY_PREFIX) model->add_dummy_prefix = field.value != 0;
        if (field.number == REMOVE_EXTRA_SPACES) model->remove_extra_spaces = field.value != 0;
        if (field.number == ESCAPE_SPACES) model->escape_spaces = field.value != 0;
    }
    return cursor.bad ? damaged(err) : MR_OK;
}

/* ---- the file ---- */

/* Field numbers of message ModelProto. */
enum { MODEL_PIECES = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3 };

static enum mr_status make_arrays(struct mr_sentencepiece_model *model, struct mr_text bytes,
                                  struct mr_error *err)
{
    struct cursor cursor = {bytes, false};
    struct field field;
    size_t count = 0;
    while (next_field(&cursor, &field))
        count += field.number == MODEL_PIECES && field.type == BYTES;
    if (cursor.bad || count == 0) return damaged(err);
    if (count > MR_VOCAB_TOKENS_MAX)
        return mr_fail(err, MR_BAD_FILE, "a vocabulary of %zu tokens", count);
    model->tokens = calloc(count, sizeof *model->tokens);
    model->scores = calloc(count, sizeof *model->scores);
    model->kinds = calloc(count, sizeof *model->kinds);
    if (model->tokens && model->scores && model->kinds) return MR_OK;
    return mr_fail(err, MR_NOMEM, "no memory for a vocabulary of %zu tokens", count);
}

/* The first control token with this text. */
static uint32_t control_token(const struct mr_sentencepiece_model *model, struct mr_text text)
{
    for (uint32_t id = 0; id < model->token_count; id++)
        if (model->kinds[id] == MR_TOKEN_CONTROL && mr_text_equal(model->tokens[id], text))
            return id;
    return MR_TOKEN_NONE;
}

static enum mr_status read_fields(struct mr_sentencepiece_model *model, struct names *names,
                                  struct mr_text bytes, struct mr_error *err)
{
    struct cursor cursor = {bytes, false};
    struct field field;
    enum mr_status status = MR_OK;
    while (status == MR_OK && next_field(&cursor, &field)) {
        if (field.type != BYTES) continue;
        if (field.number == MODEL_PIECES) status = read_token(model, field.bytes, err);
        if (field.number == MODEL_TRAINER) status = read_trainer(model, names, field.bytes, err);
        if (field.number == MODEL_NORMALIZER) status = read_normalizer(model, field.bytes, err);
    }
    return status;
}

enum mr_status mr_sentencepiece_model_parse(struct mr_sentencepiece_model *out,
                                            struct mr_text bytes, struct mr_error *err)
{
    /* values that the format assumes for absent fields */
    *out = (struct mr_sentencepiece_model){.unk_id = MR_TOKEN_NONE,
                                           .type = MR_SENTENCEPIECE_UNIGRAM,
                                           .charsmap = {"", 0},
                                           .add_dummy_prefix = true,
                                           .remove_extra_spaces = true,
                                           .escape_spaces = true};
    struct names names = {{"<s>", 3}, {"</s>", 4}};
    enum mr_status status = make_arrays(out, bytes, err);
    if (status == MR_OK) status = read_fields(out, &names, bytes, err);
    if (status == MR_OK && out->unk_id == MR_TOKEN_NONE)
        status = mr_fail(err, MR_BAD_FILE, "the SentencePiece model has no unknown token");
    if (status != MR_OK) {
        mr_sentencepiece_model_drop(out);
        return status;
    }
    out->bos_id = control_token(out, names.bos);
    out->eos_id = control_token(out, names.eos);
    return MR_OK;
}

void mr_sentencepiece_model_drop(struct mr_sentencepiece_model *model)
{
    free(model->tokens);
    free(model->scores);
    free(model->kinds);
    *model = (struct mr_sentencepiece_model){0};
}
