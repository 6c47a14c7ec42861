extern "C" {
#include "ops/cuda/kernel_table.h"

const struct mr_cuda_kernels mr_cuda_kernels = {
    mr_cuda_check_device, mr_cuda_decode_scratch_bytes, mr_cuda_decode_attention,
    mr_cuda_add_rms_norm, mr_cuda_rope_kv_write,        mr_cuda_gated_mul,
    mr_cuda_sample,       mr_cuda_find_tokens,
};
}
