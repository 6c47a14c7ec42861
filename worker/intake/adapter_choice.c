#include "worker/intake/adapter_choice.h"

#include <string.h>

enum mr_status mr_adapter_choice_make(const struct mr_config *config, struct mr_adapters *adapters,
                                      struct mr_ticket *ticket, struct mr_error *err)
{
    const struct mr_request_topic *topic = &config->request_topics[ticket->topic_index];
    struct mr_text name = ticket->intake.request->model;
    if ((!name.bytes || name.length == 0) && topic->adapter)
        name = (struct mr_text){topic->adapter, strlen(topic->adapter)};
    if (!name.bytes || name.length == 0 || mr_text_is(name, config->model_name)) return MR_OK;
    struct mr_adapter_version *version =
        adapters ? mr_adapters_take(adapters, name, topic->tenant) : NULL;
    if (!version && adapters)
        return mr_fail(err, MR_MODEL_NOT_FOUND, "this worker serves %s and adapters of it",
                       config->model_name);
    if (!version)
        return mr_fail(err, MR_MODEL_NOT_FOUND, "this worker serves %s", config->model_name);
    ticket->intake.adapter = version;
    ticket->adapter = mr_adapter_version_use(version);
    ticket->model = mr_adapter_version_name(version);
    return MR_OK;
}

enum mr_status mr_adapter_choice_pin(struct mr_adapters *adapters, struct mr_ticket *ticket,
                                     uint64_t now_ns, struct mr_error *err)
{
    if (!ticket->intake.adapter || ticket->intake.adapter_pinned) return MR_OK;
    switch (mr_adapters_pin(adapters, ticket->intake.adapter, now_ns)) {
    case MR_ADAPTER_PINNED:
        ticket->intake.adapter_pinned = true;
        return MR_OK;
    case MR_ADAPTER_LOADING:
        return MR_FULL;
    default:
        return mr_fail(err, MR_MODEL_NOT_FOUND,
                       "the adapter was removed or replaced before the request started");
    }
}

bool mr_adapter_choice_waits(const struct mr_ticket *ticket)
{
    return ticket->intake.adapter && !ticket->intake.adapter_pinned;
}

void mr_adapter_choice_drop(struct mr_adapters *adapters, struct mr_ticket *ticket, uint64_t now_ns)
{
    if (!ticket->intake.adapter) return;
    if (ticket->intake.adapter_pinned) mr_adapters_unpin(adapters, ticket->intake.adapter, now_ns);
    mr_adapters_drop(adapters, ticket->intake.adapter);
    ticket->intake.adapter = NULL;
}
