#include "codec/records/result_data.h"

#include "codec/base64.h"
#include "codec/wire/writer.h"

#include <stdlib.h>

bool mr_result_vector_put(struct mr_writer *writer, const float *vector, size_t count, bool base64)
{
    mr_writer_name(writer, "embedding");
    if (!base64) {
        mr_writer_array(writer, count);
        for (size_t i = 0; i < count; i++)
            mr_writer_float(writer, vector[i]);
        return true;
    }
    const size_t bytes = count * sizeof *vector;
    char *text = malloc(MR_BASE64_CHARS(bytes) + 1);
    if (!text) return false;
    mr_base64_encode((const unsigned char *)vector, bytes, text);
    mr_writer_string(writer, text);
    free(text);
    return true;
}

/* Writes the most probable label, and the probabilities in the order of the model's labels. */
static void put_classes(struct mr_writer *writer, const struct mr_result_data *data,
                        const struct mr_data_entry *entry)
{
    size_t best = 0;
    for (size_t i = 1; i < entry->count; i++)
        if (entry->numbers[i] > entry->numbers[best]) best = i;
    mr_writer_name(writer, "label");
    if (best < data->label_count)
        mr_writer_text(writer, data->labels[best]);
    else
        mr_writer_null(writer);
    mr_writer_name(writer, "num_classes");
    mr_writer_uint(writer, entry->count);
    mr_writer_name(writer, "probs");
    mr_writer_array(writer, entry->count);
    for (size_t i = 0; i < entry->count; i++)
        mr_writer_float(writer, entry->numbers[i]);
}

static void put_rank(struct mr_writer *writer, const struct mr_result_data *data,
                     const struct mr_data_entry *entry)
{
    mr_writer_name(writer, "relevance_score");
    mr_writer_float(writer, entry->numbers[0]);
    if (!data->documents) return;
    mr_writer_name(writer, "document");
    mr_writer_map(writer, 1);
    mr_writer_name(writer, "text");
    mr_writer_text(writer, data->documents[entry->index].second);
}

void mr_result_error_put(struct mr_writer *writer, enum mr_status error, const char *message,
                         bool retryable)
{
    mr_writer_name(writer, "error");
    mr_writer_map(writer, 3);
    mr_writer_name(writer, "code");
    mr_writer_string(writer, mr_status_code(error));
    mr_writer_name(writer, "message");
    mr_writer_string(writer, message ? message : "");
    mr_writer_name(writer, "retryable");
    mr_writer_bool(writer, retryable);
}

/* Number of members of an entry after its index. */
static uint32_t entry_members(const struct mr_result_data *data, const struct mr_data_entry *entry)
{
    if (entry->count == 0) return 1;
    if (data->form == MR_DATA_CLASSES) return 3;
    return data->form == MR_DATA_RANKS && data->documents ? 2 : 1;
}

static bool put_entry(struct mr_writer *writer, const struct mr_result_data *data,
                      const struct mr_data_entry *entry)
{
    mr_writer_map(writer, 1u + entry_members(data, entry));
    mr_writer_name(writer, "index");
    mr_writer_uint(writer, entry->index);
    if (entry->count == 0)
        mr_result_error_put(writer, entry->error, entry->message,
                            mr_status_is_retryable(entry->error));
    else if (data->form == MR_DATA_CLASSES)
        put_classes(writer, data, entry);
    else if (data->form == MR_DATA_RANKS)
        put_rank(writer, data, entry);
    else
        return mr_result_vector_put(writer, entry->numbers, entry->count, data->base64);
    return true;
}

bool mr_result_data_put(struct mr_writer *writer, const struct mr_result_data *data)
{
    mr_writer_name(writer, "data");
    mr_writer_array(writer, data->count);
    for (size_t i = 0; i < data->count; i++)
        if (!put_entry(writer, data, &data->entries[i])) return false;
    return true;
}
