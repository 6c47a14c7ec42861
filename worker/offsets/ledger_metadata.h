/* ledger_metadata - encodes an offset ledger as the metadata text of a Kafka offset commit, and
 * decodes it.
 *
 * base64, because librdkafka before 2.6.1 corrupts bytes of value 0, of:
 *     u8      magic and version
 *     u64     unix ms, most significant byte first: lower bound on the timestamps of results that
 *             this text does not list as finished (worker/offsets/recovery.h); 0: unknown
 *     u32     instance of the worker that commits, most significant byte first: a random number of
 *             the process (worker/offsets/handover.h); 0: unknown
 *     varint  n, then n bytes of bitmap: bit i set means that offset base + i is finished
 *     varint  m, then m entries of records that were started and are not finished:
 *             varint distance from the entry before (from base for the first), u8 attempts,
 *             u8 crashes, u8 flags of the slot (MR_LEDGER_SLOT_ without FINISHED)
 * The ledger starts no request whose entry would not fit (mr_offset_ledger_may_start), so the list
 * is complete.
 *
 * Two older versions are still read: 0xA2 has neither instance nor flags (the high bit of `crashes`
 * means that the request is running), and 0xA1 has no time either. Magic, version and time take the
 * first MR_LEDGER_METADATA_TIME_CHARS characters of the text.
 *
 * Owner: the thread of the ledger. Errors: MR_MALFORMED for text of another application or version.
 */
#ifndef MR_WORKER_OFFSETS_LEDGER_METADATA_H
#define MR_WORKER_OFFSETS_LEDGER_METADATA_H

#include "codec/status.h"
#include "codec/text.h"
#include "worker/offsets/offset_ledger.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of MR_LEDGER_METADATA_RAW_MAX bytes in base64 with a NUL: below the 4096 bytes a broker
 * accepts. */
#define MR_LEDGER_METADATA_TEXT_MAX (MR_LEDGER_METADATA_RAW_MAX / 3u * 4u + 1u)

#define MR_LEDGER_METADATA_TIME_CHARS 12u

struct mr_ledger_head {
    int64_t since_ms; /* lower bound on the timestamps of results that are not listed; 0: unknown */
    uint32_t instance; /* the worker that commits; 0: unknown */
};

/* Writes the ledger as NUL-terminated text; "" when it has not received any offset. */
void mr_ledger_metadata_encode(struct mr_offset_ledger *ledger, struct mr_ledger_head head,
                               char text[MR_LEDGER_METADATA_TEXT_MAX]);
/* Resets the ledger to a committed offset and the commit's metadata, and fills *head. Call
 * mr_offset_ledger_take_over afterwards. On MR_MALFORMED the ledger has only the offset: requests
 * finished above that offset may run again, and none is lost. */
enum mr_status mr_ledger_metadata_restore(struct mr_offset_ledger *ledger, int64_t offset,
                                          struct mr_text text, struct mr_ledger_head *head,
                                          struct mr_error *err);

#endif
