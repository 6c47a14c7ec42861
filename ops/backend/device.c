#include "ops/backend/device.h"

#include <string.h>

enum mr_status mr_device_parse(const char *text, struct mr_device *out, struct mr_error *err)
{
    *out = (struct mr_device){.kind = MR_DEVICE_CPU};
    if (strcmp(text, "cpu") == 0) return MR_OK;
    if (strcmp(text, "cuda") == 0) {
        out->kind = MR_DEVICE_CUDA;
        return MR_OK;
    }
    if (strncmp(text, "cuda:", 5) == 0 && text[5] >= '0' && text[5] <= '9' && !text[6]) {
        *out = (struct mr_device){.kind = MR_DEVICE_CUDA, .index = text[5] - '0'};
        return MR_OK;
    }
    return mr_fail(err, MR_BAD_CONFIG, "unknown device \"%.32s\"; use cpu, cuda or cuda:N", text);
}

size_t mr_number_bytes(enum mr_number number)
{
    return number == MR_NUMBER_F32 ? sizeof(float) : sizeof(uint16_t);
}

const char *mr_number_name(enum mr_number number)
{
    static const char *const names[] = {"f32", "bf16", "f16"};
    return names[number];
}
