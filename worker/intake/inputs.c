#include "worker/intake/inputs.h"

#include <string.h>

/* The tokens of a text, without special ones. */
struct part {
    const uint32_t *ids;
    size_t count;
};

/* Which tokens of a text that is longer than the model reads are wanted. */
enum wish { WANT_START, WANT_START_AND_COUNT, WANT_ALL };

/* Encodes a text into the encoder's buffer, or if all tokens of a longer text are wanted into the
 * arena. */
static enum mr_status encode_text(const struct mr_input_encoder *encoder, struct mr_arena *arena,
                                  struct mr_text text, enum wish wish, struct part *out,
                                  struct mr_error *err)
{
    const struct mr_encode_options options = {.parse_special = true};
    struct mr_id_list list = {.ids = encoder->ids, .max = encoder->tokens_max};
    if (wish == WANT_START) list.enough = (size_t)encoder->tokens_max + 1;
    struct mr_error inner = {0};
    enum mr_status status =
        mr_tokenizer_encode(encoder->tokenizer, encoder->scratch, text, options, &list, &inner);
    if (status == MR_PROMPT_TOO_LONG && wish == WANT_ALL) {
        list = (struct mr_id_list){.ids = mr_arena_take_array(arena, list.count, sizeof *list.ids),
                                   .max = list.count};
        if (!list.ids) return mr_fail(err, MR_RECORD_TOO_LARGE, "no room for the tokens of a text");
        status =
            mr_tokenizer_encode(encoder->tokenizer, encoder->scratch, text, options, &list, &inner);
    }
    if (status != MR_OK && status != MR_PROMPT_TOO_LONG)
        return mr_fail(err, status, "%s", inner.detail);
    *out = (struct part){list.ids, list.count};
    if (list.count > list.max && wish == WANT_ALL)
        return mr_fail(err, MR_PROMPT_TOO_LONG, "%s", inner.detail);
    return MR_OK;
}

/* Copies the part out of the encoder's buffer, which the next text needs. */
static enum mr_status keep(struct mr_arena *arena, const struct mr_input_encoder *encoder,
                           struct part *part, struct mr_error *err)
{
    const size_t count = part->count < encoder->tokens_max ? part->count : encoder->tokens_max;
    if (part->ids != encoder->ids) return MR_OK;
    uint32_t *copy = mr_arena_take_array(arena, count + 1, sizeof *copy);
    if (!copy) return mr_fail(err, MR_RECORD_TOO_LARGE, "no room for the tokens of a text");
    if (count > 0) memcpy(copy, part->ids, count * sizeof *copy);
    part->ids = copy;
    return MR_OK;
}

/* Cuts two parts to `most` tokens together: the longer one first, and then both alike. */
static void cut_longest(struct part *first, struct part *second, size_t most, bool keep_start)
{
    size_t less = first->count < second->count ? first->count : second->count, more;
    if (first->count + second->count <= most) return;
    if (less > most)
        more = less;
    else
        more = less > most - less ? less : most - less;
    if (less + more > most) {
        less = most / 2;
        more = less + most % 2;
    }
    const bool swapped = first->count > second->count;
    const size_t first_count = swapped ? more : less, second_count = swapped ? less : more;
    if (!keep_start) {
        first->ids += first->count - first_count;
        second->ids += second->count - second_count;
    }
    first->count = first_count;
    second->count = second_count;
}

static size_t put(uint32_t *ids, size_t at, const uint32_t *from, size_t count)
{
    if (count > 0) memcpy(ids + at, from, count * sizeof *ids);
    return at + count;
}

/* Joins the parts and the special tokens. */
static enum mr_status join(struct mr_arena *arena, const struct mr_token_frame *frame,
                           struct part first, struct part second, struct mr_input *input,
                           struct mr_error *err)
{
    const bool pair = input->second.bytes != NULL;
    const size_t most =
        first.count + second.count + frame->first_count + frame->middle_count + frame->last_count;
    uint32_t *ids = mr_arena_take_array(arena, most + 1, sizeof *ids);
    if (!ids) return mr_fail(err, MR_RECORD_TOO_LARGE, "no room for the tokens of a text");
    size_t count = put(ids, 0, frame->first, frame->first_count);
    count = put(ids, count, first.ids, first.count);
    if (pair) {
        count = put(ids, count, frame->middle, frame->middle_count);
        input->second_begin = frame->types ? (uint32_t)count : 0;
        count = put(ids, count, second.ids, second.count);
    }
    input->token_count = put(ids, count, frame->last, frame->last_count);
    input->token_ids = ids;
    if (input->token_count > 0) return MR_OK;
    return mr_fail(err, MR_EMPTY_PROMPT, "the text has no tokens");
}

static enum mr_status check_length(size_t count, uint32_t most, struct mr_error *err)
{
    if (count <= most) return MR_OK;
    return mr_fail(err, MR_PROMPT_TOO_LONG,
                   "the text has more than %u tokens, the most that the model reads; "
                   "truncate_prompt_tokens cuts it",
                   most);
}

/* The most tokens of a text that truncation leaves; 0: it is not truncated. */
static uint32_t kept_tokens(const struct mr_input_encoder *encoder,
                            const struct mr_request *request)
{
    const uint32_t asked = request->prompt_rules.tokens_max;
    return asked < encoder->tokens_max ? asked : encoder->tokens_max;
}

static enum mr_status check_ids(const struct mr_input_encoder *encoder, struct mr_request *request,
                                struct mr_input *input, struct mr_error *err)
{
    const uint32_t most = kept_tokens(encoder, request);
    const struct mr_prompt_rules *rules = &request->prompt_rules;
    if (most > 0 && input->token_count > most) {
        if (rules->side_given && !rules->keep_start) input->token_ids += input->token_count - most;
        input->token_count = most;
    }
    if (input->token_count == 0) return mr_fail(err, MR_EMPTY_PROMPT, "the text has no tokens");
    return check_length(input->token_count, encoder->tokens_max, err);
}

enum mr_status mr_input_encode(const struct mr_input_encoder *encoder, struct mr_request *request,
                               struct mr_input *input, struct mr_error *err)
{
    struct mr_arena *arena = request->arena;
    const struct mr_prompt_rules *rules = &request->prompt_rules;
    const bool pair = input->second.bytes != NULL,
               keep_start = !rules->side_given || rules->keep_start;
    struct mr_token_frame frame = *mr_tokenizer_frame(encoder->tokenizer);
    if (!input->text.bytes) return check_ids(encoder, request, input, err);
    if (pair && !frame.pairs)
        return mr_fail(err, MR_UNSUPPORTED, "the model's tokenizer does not encode pairs of texts");
    if (rules->special_given && !rules->add_special) frame = (struct mr_token_frame){.pairs = true};
    const uint32_t most = kept_tokens(encoder, request);
    /* the lengths of both texts of a pair decide which is cut */
    enum wish wish = pair && most > 0 ? WANT_START_AND_COUNT : WANT_START;
    if (most > 0 && !keep_start) wish = WANT_ALL;
    struct part first = {0}, second = {0};
    enum mr_status status = encode_text(encoder, arena, input->text, wish, &first, err);
    if (status == MR_OK && pair) status = keep(arena, encoder, &first, err);
    if (status == MR_OK && pair)
        status = encode_text(encoder, arena, input->second, wish, &second, err);
    if (status != MR_OK) return status;
    const size_t special = frame.first_count + frame.last_count + (pair ? frame.middle_count : 0);
    const size_t room = most > special ? most - special : 0;
    if (most > 0 && pair) {
        cut_longest(&first, &second, room, keep_start);
    } else if (most > 0 && first.count > room) {
        if (!keep_start) first.ids += first.count - room;
        first.count = room;
    }
    status = check_length(first.count + second.count + special, encoder->tokens_max, err);
    return status == MR_OK ? join(arena, &frame, first, second, input, err) : status;
}

enum mr_status mr_inputs_encode(const struct mr_input_encoder *encoder, struct mr_request *request,
                                struct mr_error *err)
{
    struct mr_inputs *inputs = &request->inputs;
    size_t failed = 0;
    inputs->token_count = 0;
    for (size_t i = 0; i < inputs->count; i++) {
        struct mr_input *input = &inputs->list[i];
        struct mr_error own = {0};
        input->error = mr_input_encode(encoder, request, input, &own);
        if (input->error == MR_OK) {
            inputs->token_count += input->token_count;
            continue;
        }
        if (mr_status_class(input->error) != MR_CLASS_REJECT)
            return mr_fail(err, input->error, "%s", own.detail);
        input->message = mr_arena_copy_text(request->arena, own.detail, strlen(own.detail));
        if (!input->message) return mr_fail(err, MR_RECORD_TOO_LARGE, "no room for an error");
        failed++;
    }
    if (failed < inputs->count) return MR_OK;
    return mr_fail(err, inputs->list[0].error, "%s", inputs->list[0].message);
}
