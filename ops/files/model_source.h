/* model_source - the content of a model's files: configuration, tensors, tokenizer, chat template,
 * sampling defaults. ops/files/model_gguf.c or ops/files/model_folder.c fills it.
 *
 * Owner:  the model. Memory: the source owns its texts and the tokenizer; the tensors are borrowed
 *         from the mapped files, which _close_weights unmaps after they have been packed.
 * Errors: MR_NOMEM. */
#ifndef MR_OPS_FILES_MODEL_SOURCE_H
#define MR_OPS_FILES_MODEL_SOURCE_H

#include "codec/special_texts.h"
#include "codec/tokenizer/tokenizer.h"
#include "ops/families/model_config.h"
#include "ops/files/gguf_split.h"
#include "ops/files/quantized_folder.h"
#include "ops/files/safetensors.h"
#include "ops/files/sampling_defaults.h"
#include "ops/files/text_heads.h"

struct mr_model_source {
    struct mr_model_config config;
    struct mr_tokenizer *tokenizer;
    /* Owned; empty when the model's files have none. */
    struct mr_text chat_template;
    struct mr_text tool_template; /* for requests with tools; empty: the same template */
    struct mr_special_texts special;
    struct mr_sampling_defaults defaults;
    struct mr_text_heads heads; /* of a Hugging Face folder */
    char name[128];
    char *
        path; /* path of the file or folder, owned; NULL in a source that was not read from files */
    /* The mix of number formats that a GGUF file names, such as "Q4_K_M": a static string. NULL:
     * the file names none, or the model is a folder. */
    const char *file_type;
    bool gguf_names; /* true: tensors have GGUF's names; false: Hugging Face's */
    const struct mr_tensor_table *tensors; /* NULL after mr_model_source_close_weights */
    struct mr_gguf_split *gguf;            /* NULL for a Hugging Face folder */
    struct mr_safetensors *safetensors;    /* NULL for a GGUF model */
    struct mr_quantized_folder *quantized; /* NULL for a GGUF model */
};

/* Returns the number of weight files. Call it before mr_model_source_close_weights. */
uint32_t mr_model_source_file_count(const struct mr_model_source *source);
/* Fills stamps [mr_model_source_file_count] with the stamps of the weight files. */
void mr_model_source_stamps(const struct mr_model_source *source, struct mr_file_stamp *stamps);
/* Unmaps the files of the weights; everything except `tensors` stays valid. */
void mr_model_source_close_weights(struct mr_model_source *source);
/* Closing a zeroed source does nothing. */
void mr_model_source_close(struct mr_model_source *source);

/* ---- for the readers that fill a source ---- */

/* Sets *out to a copy of text, which mr_model_source_close frees. Errors: MR_NOMEM. */
enum mr_status mr_model_source_copy_text(struct mr_text *out, struct mr_text text,
                                         struct mr_error *err);
/* Replaces a text of a source by a copy of `with`; on an error the text stays. */
enum mr_status mr_model_source_replace_text(struct mr_text *text, struct mr_text with,
                                            struct mr_error *err);
/* Sets the path of the model, for errors. Errors: MR_NOMEM. */
enum mr_status mr_model_source_set_path(struct mr_model_source *source, const char *path,
                                        struct mr_error *err);
/* Sets the name of the model; names longer than 127 bytes are cut. */
void mr_model_source_set_name(struct mr_model_source *source, struct mr_text name);

#endif
