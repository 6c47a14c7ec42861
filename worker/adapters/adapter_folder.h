/* adapter_folder - lists the adapters of a folder: its folders with an adapter_config.json, and its
 * GGUF files.
 *
 * Threads: any. Memory: none kept. Errors: an entry that cannot be read is left out. */
#ifndef MR_WORKER_ADAPTERS_ADAPTER_FOLDER_H
#define MR_WORKER_ADAPTERS_ADAPTER_FOLDER_H

#include "codec/text.h"

#include <stdbool.h>
#include <stdint.h>

/* Identifies a state of the adapter's files: two for a folder, one for a GGUF file. */
struct mr_adapter_stamp {
    uint64_t inodes[2], bytes[2];
    int64_t modified_ns[2], changed_ns[2]; /* since 1970 */
};

/* Whether the files were last written a second ago or earlier. */
bool mr_adapter_stamp_is_settled(const struct mr_adapter_stamp *stamp);
/* Calls found for each adapter, with texts that are valid during the call. name: of the entry,
 * without .gguf. False: the folder cannot be read. */
bool mr_adapter_folder_scan(const char *folder,
                            void (*found)(void *context, struct mr_text name, const char *path,
                                          const struct mr_adapter_stamp *stamp),
                            void *context);

#endif
