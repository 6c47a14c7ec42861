/* adapters - the LoRA adapters that a worker serves, by name: those of --adapter, and those of the
 * folder of --adapters, which is watched.
 *
 * A version is one content of a named adapter, known by its digest. A file that changes makes a new
 * version; requests keep the version that they were consumed with. A version is
 *     listed    its files were read and fit the model; its weights are not in memory
 *     loaded    its weights are on the device
 *     gone      it is not loaded, and its files were removed or replaced: its requests are refused
 * Intake takes a version for each request, and pins it before it submits the request to the engine.
 * The adapters' thread loads versions that intake wants to pin. When the loaded ones and the new
 * one exceed --adapter-memory, it unloads those without pins, the one unpinned longest ago first. A
 * load that finds no room for MR_ADAPTERS_PATIENCE_NS closes the loaded version with the fewest
 * pins: it gets no new pins, and is unloaded when its requests have ended. So a cold adapter waits
 * at most for that time and for the requests of one other adapter that are in the engine, for each
 * adapter that waits before it.
 *
 * Threads: each function names them. Memory: MR_ADAPTERS_MAX names; weights as described. The limit
 *          may be exceeded by one adapter that is larger than all of it.
 * Errors:  _open fails when an adapter of --adapter is bad. A bad adapter of the folder is a
 * warning in the log and has no name. */
#ifndef MR_WORKER_ADAPTERS_ADAPTERS_H
#define MR_WORKER_ADAPTERS_ADAPTERS_H

#include "batching/sequence/submission.h"
#include "codec/text.h"
#include "worker/base/clock.h"
#include "worker/base/log.h"
#include "worker/base/wake.h"
#include "worker/config/request_topic.h"

#define MR_ADAPTERS_MAX         4096u
#define MR_ADAPTERS_PATIENCE_NS ((uint64_t)5000000000)
#define MR_ADAPTERS_SCAN_NS     ((uint64_t)2000000000)

struct mr_adapters;
struct mr_adapter_version;
struct mr_model;

struct mr_adapters_options {
    const struct mr_text_list *named; /* NAME=PATH[,tenant=TENANT] texts of --adapter */
    const char *folder;               /* of --adapters; "": none */
    uint64_t memory_bytes;
    struct mr_log *log; /* borrowed, as all texts; NULL: none */
};

struct mr_adapters_stats {
    uint32_t listed, loaded; /* names; versions */
    uint64_t loaded_bytes, loads, evictions;
};

/* One text of --adapter: NAME=PATH[,tenant=TENANT]. The parts are borrowed from it. */
struct mr_adapter_option {
    struct mr_text name, path, tenant; /* tenant: empty if all tenants may use the adapter */
};
/* False: the text is not of that form. */
bool mr_adapter_option_parse(const char *text, struct mr_adapter_option *out);

/* False: the options name no adapters. */
bool mr_adapters_wanted(const struct mr_adapters_options *options);
/* MR_BAD_CONFIG: a text of --adapter is not NAME=PATH. */
enum mr_status mr_adapters_create(struct mr_adapters **out,
                                  const struct mr_adapters_options *options, struct mr_error *err);
/* Call after the last request has ended and _close. adapters may be NULL. */
void mr_adapters_destroy(struct mr_adapters *adapters);

/* ---- the engine thread ---- */

/* Reads all adapters. model: borrowed until _close. */
enum mr_status mr_adapters_open(struct mr_adapters *adapters, const struct mr_model *model,
                                uint64_t now_ns, struct mr_error *err);
/* Starts the thread, which calls _step. */
enum mr_status mr_adapters_start(struct mr_adapters *adapters, struct mr_error *err);
/* Ends the thread and unloads everything: no step may use a version any more. */
void mr_adapters_close(struct mr_adapters *adapters);

/* Loads wanted versions and looks for changes in the folder; returns the time of the next call. A
 * test calls it in place of _start. */
uint64_t mr_adapters_step(struct mr_adapters *adapters, struct mr_time now);

/* ---- any thread ---- */

/* Sets the wake that is rung when a pin that was refused may succeed. */
void mr_adapters_set_wake(struct mr_adapters *adapters, const struct mr_wake *intake);
/* True once after such a change. */
bool mr_adapters_changed(struct mr_adapters *adapters);
/* Returns the current version of an adapter, for a request; NULL: the tenant has no such adapter.
 */
struct mr_adapter_version *mr_adapters_take(struct mr_adapters *adapters, struct mr_text name,
                                            const char *tenant);
/* Releases a version, after mr_adapters_unpin if it was pinned. */
void mr_adapters_drop(struct mr_adapters *adapters, struct mr_adapter_version *version);
enum mr_adapter_pin { MR_ADAPTER_PINNED, MR_ADAPTER_LOADING, MR_ADAPTER_GONE };
/* Keeps the weights loaded until _unpin. LOADING: they will be loaded; try again later. */
enum mr_adapter_pin mr_adapters_pin(struct mr_adapters *adapters,
                                    struct mr_adapter_version *version, uint64_t now_ns);
void mr_adapters_unpin(struct mr_adapters *adapters, struct mr_adapter_version *version,
                       uint64_t now_ns);
const char *mr_adapter_version_name(const struct mr_adapter_version *version);
const struct mr_request_adapter *mr_adapter_version_use(const struct mr_adapter_version *version);
struct mr_adapters_stats mr_adapters_stats(struct mr_adapters *adapters);
/* Sets the name of adapter number `index`, which is valid until _destroy, and the number of
 * requests that named it; false: there are only `index` names. */
bool mr_adapters_requests(struct mr_adapters *adapters, uint32_t index, const char **name,
                          uint64_t *requests);

#endif
