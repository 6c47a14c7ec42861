/* The metadata text of a commit: restores a ledger, continues with it, and writes it again.
 *
 * Input: a byte (bit 0: the bytes are encoded in base64 first), a byte with the ledger's span, a
 * byte with the number of actions, the actions (a byte each: kind and distance from the base), then
 * the metadata. */
#include "codec/base64.h"
#include "tests/fuzz/fuzz.h"
#include "worker/offsets/ledger_metadata.h"

#include <stdlib.h>

#define BASE ((int64_t)1000)

static struct mr_offset_ledger *restore(struct mr_text text, uint32_t span, enum mr_status *status,
                                        struct mr_ledger_head *head)
{
    struct mr_offset_ledger *ledger;
    struct mr_error err = {0};
    MR_ASSERT(mr_offset_ledger_create(&ledger, span, NULL) == MR_OK);
    *status = mr_ledger_metadata_restore(ledger, BASE, text, head, &err);
    MR_ASSERT(*status == MR_OK ||
              (*status == MR_MALFORMED && err.detail[0] && head->since_ms == 0));
    MR_ASSERT(mr_offset_ledger_base(ledger) >= BASE && head->since_ms >= 0);
    mr_offset_ledger_check(ledger);
    return ledger;
}

static void act(struct mr_offset_ledger *ledger, uint8_t action)
{
    struct mr_ledger_history history;
    int64_t offset = BASE + (action >> 3);
    switch (action & 7u) {
    case 0:
    case 1:
        mr_offset_ledger_receive(ledger, offset, &history);
        if (action & 1u) mr_offset_ledger_accompany(ledger, offset);
        break;
    case 2:
        if (mr_offset_ledger_may_start(ledger, offset))
            mr_offset_ledger_start(ledger, offset, (uint8_t)(action >> 3 & MR_LEDGER_SLOT_APART));
        break;
    case 3:
        mr_offset_ledger_finish(ledger, offset);
        break;
    case 4:
        mr_offset_ledger_release(ledger, offset);
        break;
    case 5:
        mr_offset_ledger_resume(ledger, offset);
        break;
    case 6:
        mr_offset_ledger_found(ledger, offset);
        break;
    default:
        mr_offset_ledger_learn(ledger, offset,
                               (struct mr_ledger_history){2, 1, action & 8u, action & 16u});
    }
    mr_offset_ledger_check(ledger);
}

/* Writes the ledger; a ledger restored from that text writes the same text. */
static void check_round_trip(struct mr_offset_ledger *ledger, uint32_t span,
                             struct mr_ledger_head head)
{
    char text[MR_LEDGER_METADATA_TEXT_MAX], again[MR_LEDGER_METADATA_TEXT_MAX];
    struct mr_offset_ledger *copy;
    struct mr_error err;
    struct mr_ledger_head found;
    mr_ledger_metadata_encode(ledger, head, text);
    MR_ASSERT(mr_offset_ledger_create(&copy, span, NULL) == MR_OK);
    enum mr_status status = mr_ledger_metadata_restore(
        copy, mr_offset_ledger_base(ledger), (struct mr_text){text, strlen(text)}, &found, &err);
    MR_ASSERT(status == MR_OK && found.since_ms == head.since_ms &&
              found.instance == head.instance);
    mr_offset_ledger_check(copy);
    MR_ASSERT(mr_offset_ledger_base(copy) == mr_offset_ledger_base(ledger));
    mr_ledger_metadata_encode(copy, head, again);
    MR_ASSERT(strcmp(text, again) == 0);
    mr_offset_ledger_destroy(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_cursor cursor = {data, size};
    uint8_t flags = fuzz_u8(&cursor);
    uint32_t span = (fuzz_u8(&cursor) + 1u) * 48u;
    struct mr_text actions = fuzz_take(&cursor, fuzz_u8(&cursor)), text = fuzz_rest(&cursor);
    char *encoded = malloc(MR_BASE64_CHARS(text.length) + 1);
    enum mr_status status;
    struct mr_ledger_head head;
    MR_ASSERT(encoded);
    if (flags & 1u) {
        mr_base64_encode((const unsigned char *)text.bytes, text.length, encoded);
        text = (struct mr_text){encoded, strlen(encoded)};
    }
    struct mr_offset_ledger *ledger = restore(text, span, &status, &head);
    check_round_trip(ledger, span, head);
    mr_offset_ledger_take_over(ledger, NULL, NULL);
    mr_offset_ledger_check(ledger);
    for (size_t i = 0; i < actions.length; i++)
        act(ledger, (uint8_t)actions.bytes[i]);
    check_round_trip(ledger, span, head);
    mr_offset_ledger_destroy(ledger);
    free(encoded);
    return 0;
}
