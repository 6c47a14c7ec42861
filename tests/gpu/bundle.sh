#!/bin/sh
# Writes the bundle for make gpu-bundle: programs built with MR_CUDA and stripped, the small
# libraries that they need, scripts and golden models, for a machine with a card, its driver, Python
# and torch 2.11.
#
#   tests/gpu/bundle.sh BUILD [JOBS]      writes BUILD/bundle and BUILD/millrace-gpu.tar.gz
#
# LibTorch, the CUDA runtime, the C and the C++ library are the machine's own.
set -eu

build=$1
jobs=${2:-$(nproc)}
tree=$(cd "$(dirname "$0")/../.." && pwd)
bundle=$build/bundle
bytes_max=62914560 # 60 MiB

cd "$tree"
cmake -G Ninja -B "$build" -DMR_CUDA=ON >/dev/null
cmake --build "$build" -j "$jobs" --target millrace golden_test_logits bench_device bench_perplexity \
    mr_cuda_kernels
rm -rf "$bundle"
mkdir -p "$bundle/bin" "$bundle/lib" "$bundle/tests/golden"
for program in millrace golden_test_logits bench_device bench_perplexity; do
    strip -o "$bundle/bin/$program" "$build/$program"
done
strip -o "$bundle/bin/millrace-torch.so" "$build/millrace-torch.so" # the programs load it from their folder
strip -o "$bundle/lib/libmr_cuda_kernels.so" "$build/libmr_cuda_kernels.so"
for program in "$bundle"/bin/*; do ldd "$program"; done |
    awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u |
    grep -vE '^(libc|libm|libdl|libpthread|librt|libutil|libgcc_s|libstdc\+\+|libgomp|libc10|libtorch.*|libcudart|libcupti)\.so' |
    while read -r name file; do cp -L "$file" "$bundle/lib/$name"; done
cp -r tests/golden/models tests/golden/gguf "$bundle/tests/golden/"
cp -r tests/gpu "$bundle/tests/"
mkdir "$bundle/tests/bench"
cp tests/bench/fleet.py tests/bench/perplexity.txt "$bundle/tests/bench/"
cp LICENSE "$bundle/"
cat >"$bundle/Makefile" <<'TEXT'
# Run these on a machine with a card. The scripts exit with 3 where there is none; make then exits with 2.
gpu-check:
	@python3 tests/gpu/check.py
gpu-bench:
	@python3 tests/gpu/bench.py
.PHONY: gpu-check gpu-bench
TEXT
tar -C "$build" -czf "$build/millrace-gpu.tar.gz" bundle
size=$(stat -c %s "$build/millrace-gpu.tar.gz")
whole=$(du -sb "$bundle" | cut -f1)
echo "$build/millrace-gpu.tar.gz: $((size / 1048576)) MiB, unpacked $((whole / 1048576)) MiB"
[ "$whole" -le "$bytes_max" ] || { echo "the bundle has more than 60 MiB" >&2 && exit 1; }
