/* ledger_metadata - an offset ledger as the metadata text of a Kafka offset commit, and back.
 *
 * base64 (a byte of value 0 is corrupted by librdkafka before 2.6.1) of:
 *     u8      magic and version
 *     u64     unix ms, most significant byte first: lower bound on the timestamps of results that
 *             this text does not list as finished (worker/intake/recovery.h); 0: not known
 *     varint  n, then n bytes of bitmap: bit i set means that offset base + i is finished
 *     varint  m, then m entries of records that were started and are not finished:
 *             varint distance from the entry before (from base for the first), u8 attempts,
 *             u8 crashes, whose high bit means that the request is running now
 * Entries that would not fit MR_LEDGER_METADATA_RAW_MAX are left out, those furthest from base
 * first; that can only hide an attempt number, never a finished record.
 *
 * Version 0xA1, without the u64 time, is still read. Magic, version and time take the first
 * MR_LEDGER_METADATA_TIME_CHARS characters of the text.
 *
 * Owner: the thread of the ledger. Errors: MR_MALFORMED for text of another application or version.
 */
#ifndef MR_WORKER_INTAKE_LEDGER_METADATA_H
#define MR_WORKER_INTAKE_LEDGER_METADATA_H

#include "codec/status.h"
#include "codec/text.h"
#include "worker/intake/offset_ledger.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_LEDGER_METADATA_RAW_MAX 3066u
/* Length of MR_LEDGER_METADATA_RAW_MAX bytes in base64 with a NUL: below the 4096 bytes a broker
 * accepts. */
#define MR_LEDGER_METADATA_TEXT_MAX (MR_LEDGER_METADATA_RAW_MAX / 3u * 4u + 1u)

#define MR_LEDGER_METADATA_TIME_CHARS 12u

/* Writes the ledger as NUL-terminated text; "" when the ledger has not seen any offset. */
void mr_ledger_metadata_encode(struct mr_offset_ledger *ledger, int64_t since_ms,
                               char text[MR_LEDGER_METADATA_TEXT_MAX]);
/* Resets the ledger to a committed offset and to what the commit's metadata says; *since_ms is the
 * time in the metadata, 0 if there is none. On MR_MALFORMED the ledger knows only the offset:
 * requests finished above that offset may be run again, none is lost. */
enum mr_status mr_ledger_metadata_restore(struct mr_offset_ledger *ledger, int64_t offset,
                                          struct mr_text text, int64_t *since_ms,
                                          struct mr_error *err);

#endif
