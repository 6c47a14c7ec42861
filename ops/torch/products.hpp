/* products - which numbers LibTorch multiplies on this CPU. oneDNN multiplies bf16 on a CPU with
 * AVX-512 or with AVX-NE-CONVERT. On others the products of a model in bf16 are computed in floats,
 * from weights that are kept as floats, and rounded to bf16. */
#ifndef MR_OPS_TORCH_PRODUCTS_HPP
#define MR_OPS_TORCH_PRODUCTS_HPP

#include "ops/torch/shim.hpp"

namespace mr_torch
{

/* Whether products in the device's numbers are computed in floats: bf16 on such a CPU. Packs a
 * small weight to see; ask once, for device->in_floats. */
bool multiplies_floats(const struct device *device);

} // namespace mr_torch

#endif
