/* products - the number format in which LibTorch multiplies on this CPU. oneDNN multiplies bf16 on
 * CPUs with AVX-512 or AVX-NE-CONVERT. On other CPUs the products of a model in bf16 are computed
 * in floats, from weights kept as floats, and rounded to bf16. */
#ifndef MR_OPS_TORCH_PRODUCTS_HPP
#define MR_OPS_TORCH_PRODUCTS_HPP

#include "ops/torch/shim.hpp"

namespace mr_torch
{

/* Returns whether products in the device's numbers are computed in floats. Packs a small weight to
 * find out; called once, for device->in_floats. */
bool multiplies_floats(const struct device *device);

} // namespace mr_torch

#endif
