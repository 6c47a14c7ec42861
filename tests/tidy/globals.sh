#!/bin/sh
# No globals but constants: names every writable object in the static libraries given, and fails if
# there is one. Constant tables of pointers (.data.rel.ro) are read only once relocated. What C++
# itself puts beside the torch shim (the start of iostream, references to type information) is no state, and its inference
# mode belongs to the thread that has begun. The cores are the process's, and so is the team of threads that loops over them.
set -u

for library; do
    objdump -t "$library" | awk -v library="$(basename "$library")" '
        / file format / { member = $1; sub(/:$/, "", member) }
        $NF ~ /^(_ZStL8__ioinit|DW\.ref\..*|\.[a-z.]*)$/ { next }
        member == "parallel.c.o" && $NF ~ /^(team|thread_index)$/ { next }
        $NF ~ /^_Z(GVZ|Z)22mr_tensor_thread_beginE4mode$/ { next }
        ($0 ~ / O / || $0 ~ /\.t(bss|data)/) && $0 ~ /[ \t](\.data|\.bss|\.tdata|\.tbss|\*COM\*)[ \t.]/ && $0 !~ /\.data\.rel\.ro/ {
            print "globals: " library "(" member "): " $NF " can be written" }'
done >"${scratch:=$(mktemp)}"
cat "$scratch"
! [ -s "$scratch" ]
result=$?
rm -f "$scratch"
exit $result
