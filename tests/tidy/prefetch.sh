#!/bin/sh
# Checks that the matrix products of every instruction set in the given static library prefetch. GCC
# 12 silently removes calls of an inline function that only calls _mm_prefetch: decoding of 8
# sequences took 1.7 times as long. It keeps those that call __builtin_prefetch.
set -u

objdump -d "$1" | awk '
    / file format / { member = $1; sub(/:$/, "", member); if (member ~ /^(kernels|quant)_/) found[member] = 0 }
    /prefetch|prfm/ && member in found { found[member]++ }
    END {
        for (member in found) {
            count++
            if (found[member] == 0) { print "prefetch: " member " does not prefetch"; bad = 1 }
        }
        if (count == 0) { print "prefetch: no matrix product in the library"; bad = 1 }
        exit bad
    }'
