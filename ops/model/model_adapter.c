#include "ops/model/model_adapter.h"

#include "ops/files/model_source.h"

enum mr_status mr_model_adapter_create(const struct mr_model *model,
                                       const struct mr_adapter_files *files,
                                       struct mr_adapter_weights **out, struct mr_error *err)
{
    const struct mr_adapter_base *base = mr_model_adapter_base(model);
    *out = NULL;
    if (base->sites->count == 0)
        return mr_fail(err, MR_BAD_CONFIG, "the model was opened without adapters");
    return mr_adapter_weights_create(out, base, files, err);
}

enum mr_status mr_model_adapter_check(const struct mr_model_source *source,
                                      const struct mr_adapter_files *files,
                                      struct mr_adapter_weights **out, struct mr_error *err)
{
    struct mr_layer_sites sites = {0};
    const struct mr_weights_spec spec = {.config = &source->config,
                                         .tensors = source->tensors,
                                         .gguf_names = source->gguf_names,
                                         .sites = &sites};
    const struct mr_adapter_base base = {&source->config, &sites, NULL};
    *out = NULL;
    enum mr_status status = mr_weights_check(&spec, NULL, err);
    if (status == MR_OK) status = mr_adapter_weights_create(out, &base, files, err);
    mr_layer_sites_destroy(&sites);
    return status;
}
