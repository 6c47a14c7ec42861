#!/bin/sh
# Finds global variables that are not constant: prints every writable object in the given static libraries
# and fails if there is one. Allowed are: tables of pointers (.data.rel.ro, read-only after
# relocation), objects that the C++ compiler adds to the torch shim (iostream's initializer,
# references to type information, statics of inline functions of LibTorch), the shim's inference
# mode of a thread and its recording of a graph, and the thread team of ops/cpu_kernels/parallel.c.
set -u

for library; do
    objdump -t "$library" | awk -v library="$(basename "$library")" '
        / file format / { member = $1; sub(/:$/, "", member) }
        $NF ~ /^(_ZStL8__ioinit|DW\.ref\..*|\.[a-z.]*)$/ { next }
        member == "parallel.c.o" && $NF ~ /^(team|thread_index)$/ { next }
        $NF ~ /^_Z(GVZ|Z)N8mr_torchL12begin_threadEvE4mode$/ { next }
        $NF == "_ZN8mr_torchL7watchedE" { next }
        $NF ~ /^_Z(GVZ|Z)N(3c10|2at)/ { next }
        ($0 ~ / O / || $0 ~ /\.t(bss|data)/) && $0 ~ /[ \t](\.data|\.bss|\.tdata|\.tbss|\*COM\*)[ \t.]/ && $0 !~ /\.data\.rel\.ro/ {
            print "globals: " library "(" member "): " $NF " is writable" }'
done >"${scratch:=$(mktemp)}"
cat "$scratch"
! [ -s "$scratch" ]
result=$?
rm -f "$scratch"
exit $result
