#include "worker/adapters/adapters.h"

#include "codec/check.h"
#include "ops/model/model_adapter.h"
#include "worker/adapters/adapter_folder.h"
#include "worker/base/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mr_adapter_version {
    struct mr_adapter_version *next;
    struct mr_request_adapter use; /* weights NULL: not loaded */
    struct mr_adapter_weights *weights;
    char *name, *path;
    uint64_t bytes; /* of the weights: an estimate until they are loaded */
    uint32_t refs, pins;
    bool current; /* the newest version of its name */
    bool wanted, closing;
    uint64_t wanted_ns, unpinned_ns;
};

/* A name and its current version. */
struct entry {
    char *name, *path, *tenant;         /* tenant NULL: all tenants may use the adapter */
    struct mr_adapter_version *version; /* NULL: the files are bad */
    struct mr_adapter_stamp stamp;
    bool named; /* of --adapter: not watched */
    bool seen;  /* by the current scan of the folder */
    uint64_t requests;
};

struct mr_adapters {
    struct mr_adapters_options options;
    const struct mr_model *model;
    struct mr_thread *thread;
    struct mr_wake wake; /* of the thread */
    atomic_bool changed;
    uint64_t scan_ns;      /* time of the next scan */
    struct entry *entries; /* [MR_ADAPTERS_MAX]; written by the adapters' thread only */
    uint32_t count;
    pthread_mutex_t mutex; /* protects the fields below, the entries and the versions */
    struct mr_adapter_version *versions;
    const struct mr_wake *intake;
    struct mr_adapters_stats stats;
};

/* ---- options ---- */

bool mr_adapters_wanted(const struct mr_adapters_options *options)
{
    return options->named->count > 0 || (options->folder && options->folder[0]);
}

bool mr_adapter_option_parse(const char *text, struct mr_adapter_option *out)
{
    static const char key[] = ",tenant=";
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1]) return false;
    const char *path = equals + 1, *tenant = strstr(path, key);
    *out =
        (struct mr_adapter_option){.name = {text, (size_t)(equals - text)},
                                   .path = {path, tenant ? (size_t)(tenant - path) : strlen(path)}};
    if (!tenant) return true;
    tenant += sizeof key - 1;
    out->tenant = (struct mr_text){tenant, strlen(tenant)};
    return out->path.length > 0 && out->tenant.length > 0;
}

static enum mr_status check_named(const struct mr_text_list *named, struct mr_error *err)
{
    struct mr_adapter_option option;
    for (size_t i = 0; i < named->count; i++)
        if (!mr_adapter_option_parse(named->values[i], &option))
            return mr_fail(err, MR_BAD_CONFIG, "--adapter %.100s is not NAME=PATH[,tenant=TENANT]",
                           named->values[i]);
    return MR_OK;
}

/* ---- versions ---- */

static void free_version(struct mr_adapter_version *version)
{
    mr_adapter_weights_destroy(version->weights);
    free(version->path);
    free(version->name);
    free(version);
}

/* Frees the versions that nothing refers to. The caller holds the mutex. */
static void sweep(struct mr_adapters *adapters)
{
    for (struct mr_adapter_version **link = &adapters->versions; *link;) {
        struct mr_adapter_version *version = *link;
        if (version->current || version->refs > 0) {
            link = &version->next;
            continue;
        }
        if (version->weights) {
            adapters->stats.loaded--;
            adapters->stats.loaded_bytes -= version->bytes;
        }
        *link = version->next;
        free_version(version);
    }
}

static void notify(struct mr_adapters *adapters)
{
    atomic_store(&adapters->changed, true);
    if (adapters->intake) mr_wake_ring(adapters->intake);
}

static void unload(struct mr_adapters *adapters, struct mr_adapter_version *version)
{
    MR_ASSERT(version->weights && version->pins == 0);
    mr_adapter_weights_destroy(version->weights);
    version->weights = NULL;
    version->use.weights = NULL;
    version->closing = false;
    adapters->stats.loaded--;
    adapters->stats.loaded_bytes -= version->bytes;
    adapters->stats.evictions++;
    notify(adapters); /* the requests of a removed version are refused */
}

/* ---- reading files ---- */

/* Reads the files of an adapter, and checks them against the model. */
static enum mr_status read_files(struct mr_adapters *adapters, const char *path,
                                 struct mr_adapter_files *files,
                                 struct mr_adapter_weights **checked, struct mr_error *err)
{
    struct mr_adapter_base base = *mr_model_adapter_base(adapters->model);
    enum mr_status status = mr_adapter_files_open(files, path, err);
    *checked = NULL;
    base.compute = NULL;
    if (status == MR_OK) status = mr_adapter_weights_create(checked, &base, files, err);
    return status;
}

/* Makes a version of the files at `path`. */
static enum mr_status make_version(struct mr_adapters *adapters, const struct entry *entry,
                                   struct mr_adapter_version **out, struct mr_error *err)
{
    struct mr_adapter_files files = {0};
    struct mr_adapter_weights *checked = NULL;
    struct mr_adapter_version *version = calloc(1, sizeof *version);
    *out = NULL;
    if (!version) return mr_fail(err, MR_NOMEM, "no memory for an adapter");
    version->name = strdup(entry->name);
    version->path = strdup(entry->path);
    enum mr_status status = version->name && version->path
                                ? read_files(adapters, entry->path, &files, &checked, err)
                                : mr_fail(err, MR_NOMEM, "no memory for an adapter");
    if (status == MR_OK) {
        memcpy(version->use.digest, files.digest, sizeof version->use.digest);
        version->bytes = checked->parameter_count * sizeof(float);
        version->current = true;
        *out = version;
    } else {
        free_version(version);
    }
    mr_adapter_weights_destroy(checked);
    mr_adapter_files_close(&files);
    return status;
}

/* Puts a new version, or none, in place of the entry's. */
static void replace(struct mr_adapters *adapters, struct entry *entry,
                    struct mr_adapter_version *version)
{
    pthread_mutex_lock(&adapters->mutex);
    struct mr_adapter_version *old = entry->version;
    if (old && version &&
        memcmp(old->use.digest, version->use.digest, sizeof old->use.digest) == 0) {
        free_version(version); /* the files were written again with the same content */
        version = old;
    } else {
        if (old) old->current = false;
        if (version) {
            version->next = adapters->versions;
            adapters->versions = version;
        }
        entry->version = version;
        if (version) adapters->stats.listed++;
        if (old) adapters->stats.listed--;
        notify(adapters);
    }
    sweep(adapters);
    pthread_mutex_unlock(&adapters->mutex);
}

static enum mr_status read_entry(struct mr_adapters *adapters, struct entry *entry,
                                 struct mr_error *err)
{
    struct mr_adapter_version *version;
    enum mr_status status = make_version(adapters, entry, &version, err);
    replace(adapters, entry, version);
    return status;
}

/* ---- the names ---- */

static struct entry *find(struct mr_adapters *adapters, struct mr_text name)
{
    for (uint32_t i = 0; i < adapters->count; i++)
        if (mr_text_is(name, adapters->entries[i].name)) return &adapters->entries[i];
    return NULL;
}

/* Returns the new entry; NULL: there is no room or no memory for it. */
static struct entry *add_entry(struct mr_adapters *adapters, struct mr_text name, const char *path)
{
    struct entry *entry = &adapters->entries[adapters->count];
    if (adapters->count == MR_ADAPTERS_MAX) return NULL;
    *entry = (struct entry){.name = strndup(name.bytes, name.length), .path = strdup(path)};
    if (!entry->name || !entry->path) {
        free(entry->name);
        free(entry->path);
        return NULL;
    }
    pthread_mutex_lock(&adapters->mutex);
    adapters->count++;
    pthread_mutex_unlock(&adapters->mutex);
    return entry;
}

static enum mr_status add_named(struct mr_adapters *adapters, const char *text,
                                struct mr_error *err)
{
    struct mr_adapter_option option;
    MR_ASSERT(mr_adapter_option_parse(text, &option));
    if (find(adapters, option.name))
        return mr_fail(err, MR_BAD_CONFIG, "--adapter %.100s: the name is given twice", text);
    char *path = strndup(option.path.bytes, option.path.length);
    struct entry *entry = path ? add_entry(adapters, option.name, path) : NULL;
    free(path);
    if (!entry) return mr_fail(err, MR_NOMEM, "no memory for an adapter");
    entry->named = true;
    if (option.tenant.length > 0) entry->tenant = strdup(option.tenant.bytes);
    return read_entry(adapters, entry, err);
}

/* ---- the folder ---- */

static void read_found(struct mr_adapters *adapters, struct entry *entry)
{
    struct mr_error err = {0};
    const bool had = entry->version != NULL;
    if (read_entry(adapters, entry, &err) == MR_OK)
        mr_log_info(adapters->options.log, "adapter %s: %s", entry->name,
                    had ? "read again" : "found");
    else
        mr_log_warn(adapters->options.log, "adapter %s is not served: %s", entry->name, err.detail);
}

/* Called for each adapter of the folder. Files that were written in this period are read in the
 * next one, when they are complete. */
static void on_found(void *context, struct mr_text name, const char *path,
                     const struct mr_adapter_stamp *stamp)
{
    struct mr_adapters *adapters = context;
    struct entry *entry = find(adapters, name);
    if (entry && entry->named) return;
    if (!entry) entry = add_entry(adapters, name, path);
    if (!entry) return;
    entry->seen = true;
    if (memcmp(&entry->stamp, stamp, sizeof *stamp) == 0) return;
    if (adapters->thread && !mr_adapter_stamp_is_settled(stamp)) return;
    entry->stamp = *stamp;
    read_found(adapters, entry);
}

/* False: the folder cannot be read. */
static bool scan(struct mr_adapters *adapters)
{
    if (!adapters->options.folder || !adapters->options.folder[0]) return true;
    for (uint32_t i = 0; i < adapters->count; i++)
        adapters->entries[i].seen = false;
    /* A folder that cannot be read says nothing about its adapters, so none is removed. */
    if (!mr_adapter_folder_scan(adapters->options.folder, on_found, adapters)) return false;
    for (uint32_t i = 0; i < adapters->count; i++) {
        struct entry *entry = &adapters->entries[i];
        if (entry->named || entry->seen || !entry->version) continue;
        mr_log_info(adapters->options.log, "adapter %s: removed", entry->name);
        entry->stamp = (struct mr_adapter_stamp){0};
        replace(adapters, entry, NULL);
    }
    return true;
}

/* ---- loading ---- */

/* Returns the version that waits longest for its weights. The caller holds the mutex. */
static struct mr_adapter_version *next_wanted(const struct mr_adapters *adapters)
{
    struct mr_adapter_version *first = NULL;
    for (struct mr_adapter_version *v = adapters->versions; v; v = v->next)
        if (v->wanted && (!first || v->wanted_ns < first->wanted_ns)) first = v;
    return first;
}

/* Returns a loaded version to unload: of those without pins the one unpinned longest ago. */
static struct mr_adapter_version *oldest_idle(const struct mr_adapters *adapters)
{
    struct mr_adapter_version *oldest = NULL;
    for (struct mr_adapter_version *v = adapters->versions; v; v = v->next)
        if (v->weights && v->pins == 0 && (!oldest || v->unpinned_ns < oldest->unpinned_ns))
            oldest = v;
    return oldest;
}

/* Closes the loaded version with the fewest pins, unless one is closed already. */
static void close_one(const struct mr_adapters *adapters)
{
    struct mr_adapter_version *least = NULL;
    for (struct mr_adapter_version *v = adapters->versions; v; v = v->next) {
        if (v->closing) return;
        if (v->weights && (!least || v->pins < least->pins)) least = v;
    }
    if (least) least->closing = true;
}

/* Unloads versions until one of `bytes` fits. The caller holds the mutex. */
static bool make_room(struct mr_adapters *adapters, uint64_t bytes)
{
    while (adapters->stats.loaded > 0 &&
           adapters->stats.loaded_bytes + bytes > adapters->options.memory_bytes) {
        struct mr_adapter_version *idle = oldest_idle(adapters);
        if (!idle) return false;
        unload(adapters, idle);
    }
    return true;
}

/* Reads the files of a version again, and makes its weights. The version has a reference. */
static enum mr_status load(struct mr_adapters *adapters, const struct mr_adapter_version *version,
                           struct mr_adapter_weights **out, struct mr_error *err)
{
    struct mr_adapter_files files;
    *out = NULL;
    enum mr_status status = mr_adapter_files_open(&files, version->path, err);
    if (status != MR_OK) return status;
    if (memcmp(files.digest, version->use.digest, sizeof files.digest) == 0)
        status = mr_model_adapter_create(adapters->model, &files, out, err);
    else
        status = mr_fail(err, MR_BAD_FILE, "the files were replaced");
    mr_adapter_files_close(&files);
    return status;
}

static void keep(struct mr_adapters *adapters, struct mr_adapter_version *version,
                 struct mr_adapter_weights *weights)
{
    version->wanted = false;
    if (weights) {
        version->weights = weights;
        version->use.weights = &weights->adapter;
        version->bytes = weights->bytes;
        adapters->stats.loaded++;
        adapters->stats.loaded_bytes += weights->bytes;
        adapters->stats.loads++;
    } else {
        version->current = false; /* its requests are refused */
        for (uint32_t i = 0; i < adapters->count; i++)
            if (adapters->entries[i].version == version) {
                adapters->entries[i].version = NULL;
                adapters->entries[i].stamp = (struct mr_adapter_stamp){0};
                adapters->stats.listed--;
            }
    }
    version->refs--;
    sweep(adapters);
    notify(adapters);
}

/* Loads the version that waits longest; false: none waits, or there is no room for it. */
static bool load_next(struct mr_adapters *adapters, uint64_t now_ns)
{
    struct mr_error err = {0};
    struct mr_adapter_weights *weights;
    pthread_mutex_lock(&adapters->mutex);
    struct mr_adapter_version *version = next_wanted(adapters);
    const bool fits = version && make_room(adapters, version->bytes);
    if (version && !fits && now_ns - version->wanted_ns >= MR_ADAPTERS_PATIENCE_NS)
        close_one(adapters);
    if (fits) version->refs++;
    pthread_mutex_unlock(&adapters->mutex);
    if (!fits) return false;
    if (load(adapters, version, &weights, &err) != MR_OK)
        mr_log_warn(adapters->options.log, "adapter %s cannot be loaded: %s", version->name,
                    err.detail);
    pthread_mutex_lock(&adapters->mutex);
    keep(adapters, version, weights);
    pthread_mutex_unlock(&adapters->mutex);
    return true;
}

uint64_t mr_adapters_step(struct mr_adapters *adapters, struct mr_time now)
{
    if (now.ns >= adapters->scan_ns) {
        (void)scan(adapters);
        adapters->scan_ns = now.ns + MR_ADAPTERS_SCAN_NS;
    }
    return load_next(adapters, now.ns) ? now.ns : adapters->scan_ns;
}

static uint64_t step(void *state, struct mr_time now)
{
    return mr_adapters_step(state, now);
}

/* ---- create and destroy ---- */

enum mr_status mr_adapters_create(struct mr_adapters **out,
                                  const struct mr_adapters_options *options, struct mr_error *err)
{
    *out = NULL;
    enum mr_status status = check_named(options->named, err);
    if (status != MR_OK) return status;
    struct mr_adapters *adapters = calloc(1, sizeof *adapters);
    if (!adapters) return mr_fail(err, MR_NOMEM, "no memory for adapters");
    adapters->options = *options;
    adapters->wake.fd = -1;
    pthread_mutex_init(&adapters->mutex, NULL);
    adapters->entries = calloc(MR_ADAPTERS_MAX, sizeof *adapters->entries);
    status = adapters->entries ? mr_wake_open(&adapters->wake, err)
                               : mr_fail(err, MR_NOMEM, "no memory for adapters");
    if (status != MR_OK) {
        mr_adapters_destroy(adapters);
        return status;
    }
    *out = adapters;
    return MR_OK;
}

enum mr_status mr_adapters_open(struct mr_adapters *adapters, const struct mr_model *model,
                                uint64_t now_ns, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    adapters->model = model;
    for (size_t i = 0; status == MR_OK && i < adapters->options.named->count; i++)
        status = add_named(adapters, adapters->options.named->values[i], err);
    if (status == MR_OK && !scan(adapters))
        status = mr_fail(err, MR_BAD_FILE, "--adapters %.150s: the folder cannot be read",
                         adapters->options.folder);
    adapters->scan_ns = now_ns + MR_ADAPTERS_SCAN_NS;
    return status;
}

enum mr_status mr_adapters_start(struct mr_adapters *adapters, struct mr_error *err)
{
    const struct mr_thread_options options = {
        .name = "adapters", .step = step, .state = adapters, .wake = &adapters->wake};
    return mr_thread_start(&adapters->thread, &options, err);
}

void mr_adapters_close(struct mr_adapters *adapters)
{
    mr_thread_stop(adapters->thread);
    adapters->thread = NULL;
    for (struct mr_adapter_version *v = adapters->versions; v; v = v->next) {
        mr_adapter_weights_destroy(v->weights);
        v->weights = NULL;
        v->use.weights = NULL;
    }
    adapters->stats.loaded = 0;
    adapters->stats.loaded_bytes = 0;
}

void mr_adapters_destroy(struct mr_adapters *adapters)
{
    if (!adapters) return;
    mr_adapters_close(adapters);
    for (uint32_t i = 0; i < adapters->count; i++) {
        free(adapters->entries[i].name);
        free(adapters->entries[i].path);
        free(adapters->entries[i].tenant);
    }
    for (struct mr_adapter_version *v = adapters->versions, *next; v; v = next) {
        next = v->next;
        free_version(v);
    }
    if (adapters->wake.fd >= 0) mr_wake_close(&adapters->wake);
    pthread_mutex_destroy(&adapters->mutex);
    free(adapters->entries);
    free(adapters);
}

/* ---- requests ---- */

void mr_adapters_set_wake(struct mr_adapters *adapters, const struct mr_wake *intake)
{
    pthread_mutex_lock(&adapters->mutex);
    adapters->intake = intake;
    pthread_mutex_unlock(&adapters->mutex);
}

bool mr_adapters_changed(struct mr_adapters *adapters)
{
    return atomic_exchange(&adapters->changed, false);
}

struct mr_adapter_version *mr_adapters_take(struct mr_adapters *adapters, struct mr_text name,
                                            const char *tenant)
{
    pthread_mutex_lock(&adapters->mutex);
    struct entry *entry = find(adapters, name);
    struct mr_adapter_version *version = entry ? entry->version : NULL;
    if (version && entry->tenant && strcmp(entry->tenant, tenant) != 0) version = NULL;
    if (version) {
        version->refs++;
        entry->requests++;
    }
    pthread_mutex_unlock(&adapters->mutex);
    return version;
}

void mr_adapters_drop(struct mr_adapters *adapters, struct mr_adapter_version *version)
{
    pthread_mutex_lock(&adapters->mutex);
    MR_ASSERT(version->refs > 0);
    version->refs--;
    sweep(adapters);
    pthread_mutex_unlock(&adapters->mutex);
}

enum mr_adapter_pin mr_adapters_pin(struct mr_adapters *adapters,
                                    struct mr_adapter_version *version, uint64_t now_ns)
{
    enum mr_adapter_pin pin = MR_ADAPTER_LOADING;
    pthread_mutex_lock(&adapters->mutex);
    if (version->weights && !version->closing) {
        version->pins++;
        pin = MR_ADAPTER_PINNED;
    } else if (!version->current && !version->wanted && !version->weights) {
        pin = MR_ADAPTER_GONE;
    } else if (!version->wanted && !version->weights) {
        version->wanted = true;
        version->wanted_ns = now_ns;
        mr_wake_ring(&adapters->wake);
    }
    pthread_mutex_unlock(&adapters->mutex);
    return pin;
}

void mr_adapters_unpin(struct mr_adapters *adapters, struct mr_adapter_version *version,
                       uint64_t now_ns)
{
    pthread_mutex_lock(&adapters->mutex);
    MR_ASSERT(version->pins > 0);
    version->unpinned_ns = now_ns;
    if (--version->pins == 0 && next_wanted(adapters)) mr_wake_ring(&adapters->wake);
    pthread_mutex_unlock(&adapters->mutex);
}

const char *mr_adapter_version_name(const struct mr_adapter_version *version)
{
    return version->name;
}

const struct mr_request_adapter *mr_adapter_version_use(const struct mr_adapter_version *version)
{
    return &version->use;
}

struct mr_adapters_stats mr_adapters_stats(struct mr_adapters *adapters)
{
    pthread_mutex_lock(&adapters->mutex);
    const struct mr_adapters_stats stats = adapters->stats;
    pthread_mutex_unlock(&adapters->mutex);
    return stats;
}

bool mr_adapters_requests(struct mr_adapters *adapters, uint32_t index, const char **name,
                          uint64_t *requests)
{
    pthread_mutex_lock(&adapters->mutex);
    const bool found = index < adapters->count;
    if (found) {
        *name = adapters->entries[index].name;
        *requests = adapters->entries[index].requests;
    }
    pthread_mutex_unlock(&adapters->mutex);
    return found;
}
