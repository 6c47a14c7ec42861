/* model_source - everything a model's files say, from a GGUF file or from a Hugging Face folder:
 * configuration, tensors, tokenizer, chat template, generation defaults.
 *
 * Owner:  the model. Memory: texts and tokenizer are owned; tensors borrow from the mapped files,
 *         which _close_weights lets go as soon as they are packed.
 * Errors: MR_BAD_FILE says which file and why; MR_NOMEM. */
#ifndef MR_OPS_FILES_MODEL_SOURCE_H
#define MR_OPS_FILES_MODEL_SOURCE_H

#include "codec/tokenizer/tokenizer.h"
#include "ops/files/model_config.h"
#include "ops/files/safetensors.h"

struct mr_model_source {
    struct mr_model_config config;
    struct mr_tokenizer *tokenizer;
    struct mr_text chat_template, bos_text, eos_text; /* owned; empty when there is none */
    float default_temperature, default_top_p;         /* NaN when nothing is said */
    uint32_t default_top_k;
    char name[128];
    bool gguf_names;                       /* of the tensors */
    const struct mr_tensor_table *tensors; /* NULL after _close_weights */
    struct mr_gguf *gguf;                  /* the one or */
    struct mr_safetensors *safetensors;    /* the other */
};

enum mr_status mr_model_source_open(struct mr_model_source *out, const char *path,
                                    struct mr_error *err);
void mr_model_source_close_weights(struct mr_model_source *source);
/* Closing a zeroed source does nothing. */
void mr_model_source_close(struct mr_model_source *source);

/* An owned copy of text in *out; for the readers of model files. */
enum mr_status mr_model_source_keep(struct mr_text *out, struct mr_text text, struct mr_error *err);

#endif
