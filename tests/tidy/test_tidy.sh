#!/bin/sh
# Tests tests/tidy/tidy.sh: a small clean tree passes every rule, and every violation planted in a copy of that
# tree is reported by its rule, with the name of the file.
set -u

here=$(cd "$(dirname "$0")" && pwd)
: "${MILLRACE_CLANG_FORMAT:=$here/../../.deps/clang-format/clang-format}"
export MILLRACE_CLANG_FORMAT
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
clean=$scratch/clean
tree=$scratch/tree
failures=0
plants=0

lines() { # lines COUNT [TEXT]
    awk -v n="$1" -v text="${2:-}" 'BEGIN { while (n-- > 0) print text }'
}

header() { # header PATH TEXT
    mkdir -p "$(dirname "$1")" && printf '#pragma once\n\n%s\n' "$2" >"$1"
}

module() { # module FOLDER NAME INCLUDE…: writes header, source and test; the source has these includes
    folder=$1
    name=$2
    shift 2
    header "$clean/$folder/$name.h" "int mr_$name(int a);"
    {
        echo "#include \"$folder/$name.h\""
        [ $# -eq 0 ] || echo
        for include; do echo "#include $include"; done
        printf '\nint mr_%s(int a)\n{\n    return a;\n}\n' "$name"
    } >"$clean/$folder/$name.c"
    mkdir -p "$clean/tests/unit/$folder"
    printf '#include "%s/%s.h"\n\nint main(void)\n{\n    return cmocka_run_group_tests(mr_%s);\n}\n' \
        "$folder" "$name" "$name" >"$clean/tests/unit/$folder/test_$name.c"
}

make_clean_tree() {
    module codec wire
    module codec part
    module kvcache pool '"codec/wire.h"'
    module batching/base queue '"codec/part.h"' '"kvcache/pool.h"'
    module worker/intake intake '"batching/base/queue.h"'
    mkdir -p "$clean/worker/cli"
    printf '#include "worker/intake/intake.h"\n\nint main(void)\n{\n    return mr_intake(0);\n}\n' \
        >"$clean/worker/cli/main.c"
    header "$clean/ops/cpu_kernels/kernels.h" 'int mr_norm(int a);'
    for variant in scalar avx512; do
        printf '#include "ops/cpu_kernels/kernels.h"\n\nint mr_norm(int a)\n{\n    return a;\n}\n' \
            >"$clean/ops/cpu_kernels/norm_$variant.c"
    done
    mkdir -p "$clean/tests/unit/ops/cpu_kernels"
    printf '#include "ops/cpu_kernels/kernels.h"\n\nint main(void)\n{\n    return cmocka_run_group_tests(mr_norm);\n}\n' \
        >"$clean/tests/unit/ops/cpu_kernels/test_norm.c"
    echo '# A tree' | tee "$clean/README.md" "$clean/LICENSE" "$clean/Makefile" >"$clean/CMakeLists.txt"
    printf 'check:\n\t@true\n' >>"$clean/Makefile"
    mkdir -p "$clean/docker/guide"
    printf '# Reference\n\n| `millrace_ready` | gauge |\n' >"$clean/docker/guide/reference.md"
    printf '\nconst struct mr_option mr_options[] = {\n    {"model", MR_OPTION_TEXT},\n};\n' >>"$clean/worker/intake/intake.c"
    cat >"$clean/docker/guide/use.md" <<'EOF'
# How to use it

Set `--model` and `millrace serve --model=a`, see [the list](reference.md#reference), and alert on `millrace_ready`.
EOF
    cat >"$clean/codec/README.md" <<'EOF'
# codec

`mr_wire`, `mr_pa*` and `wire.h` are in `codec/wire.c`, `batching/base` above; [use](../docker/guide/use.md#how-to-use-it). `make check`.
Two tests and a bug; `test_NAME.c`, `_part.c`.
EOF
    cp "$here/../../.clang-format" "$clean/"
    # Allowed: names of forbidden functions in comments, in strings and as parts of other names.
    cat >>"$clean/codec/wire.c" <<'EOF'

/* This strcpy(in, a comment) and "gets(x)" are not calls. */
const char *mr_wire_note(void)
{
    return "sprintf(text) printf(text)";
}
EOF
}

catches() { # catches RULE FILE: the rule must report the file; then the tree is made clean again
    plants=$((plants + 1))
    if out=$("$here/tidy.sh" --root "$tree" "$1" 2>&1); then
        echo "FAILED: rule $1 does not find the violation planted in $2"
        failures=$((failures + 1))
    elif ! echo "$out" | grep -q "^$1: $2:"; then
        echo "FAILED: rule $1 does not name $2; it prints: $out"
        failures=$((failures + 1))
    fi
    fresh
}

fresh() {
    rm -rf "$tree" && cp -R "$clean" "$tree"
}

plant() { # plant FILE TEXT: appends the text to the file
    mkdir -p "$tree/$(dirname "$1")"
    printf '%s\n' "$2" >>"$tree/$1"
}

make_clean_tree
fresh
if ! out=$("$here/tidy.sh" --root "$tree" 2>&1); then
    echo "FAILED: the clean tree is not clean: $out"
    failures=$((failures + 1))
fi

plant notes.md 'a stray file' && catches top notes.md
plant library/thing.md 'a stray folder' && catches top library

plant codec/wire.c '#include "ops/cpu_kernels/kernels.h"' && catches rooms codec/wire.c
plant kvcache/pool.c '#include "ops/cpu_kernels/kernels.h"' && catches rooms kvcache/pool.c
plant ops/cpu_kernels/norm_scalar.c '#include "kvcache/pool.h"' && catches rooms ops/cpu_kernels/norm_scalar.c
plant batching/base/queue.c '#include "worker/intake/intake.h"' && catches rooms batching/base/queue.c
plant worker/intake/intake.c '#include "queue.h"' && catches rooms worker/intake/intake.c
plant codec/wire/a.h '#include "codec/records/b.h"' && catches rooms codec/wire/a.h
plant codec/cellar/a.h 'int a;' && catches rooms codec/cellar/a.h
plant codec/wire.h '#include "codec/part.h"' && plant codec/part.c '#include "codec/wire.h"'
catches rooms codec/part

plant codec/part.c '#include <msgpack.h>' && catches home codec/part.c
plant worker/intake/intake.c '#include <jansson.h>' && catches home worker/intake/intake.c
plant batching/base/queue.c '#include <hiredis/hiredis.h>' && catches home batching/base/queue.c
plant kvcache/pool.c '#include <librdkafka/rdkafka.h>' && catches home kvcache/pool.c
plant worker/intake/intake.c '#include <ATen/ATen.h>' && catches home worker/intake/intake.c
plant worker/intake/intake.c '#include <microhttpd.h>' && catches home worker/intake/intake.c
plant worker/intake/intake.c '#include <yaml.h>' && catches home worker/intake/intake.c
plant codec/part.c '#include <pcre2.h>' && catches home codec/part.c
plant codec/part.c '#include <utf8proc.h>' && catches home codec/part.c
plant codec/part.c '#include <openssl/sha.h>' && catches home codec/part.c
plant codec/part.c '#include <xxhash.h>' && catches home codec/part.c
plant batching/base/queue.cpp 'int a;' && catches home batching/base/queue.cpp
plant batching/base/queue.cu 'int a;' && catches home batching/base/queue.cu

plant batching/base/queue.c 'void f(void) { printf("x"); }' && catches pure batching/base/queue.c
plant kvcache/pool.c 'long f(void) { return x ? 1 : time(0); }' && catches pure kvcache/pool.c
plant codec/wire.c 'char *f(void) { return getenv("A"); }' && catches pure codec/wire.c
plant ops/cpu_kernels/norm_scalar.c 'void f(void) { pthread_create(a, b, c, d); }' &&
    catches pure ops/cpu_kernels/norm_scalar.c

lines 600 >>"$tree/codec/wire.c" && catches size codec/wire.c
lines 148 >>"$tree/codec/wire.h" && catches size codec/wire.h
{ echo 'int f(void)' && echo '{' && lines 69 '    g();' && echo '}'; } >>"$tree/codec/wire.c"
catches size codec/wire.c
plant codec/wire.c 'int f(int a, int b, int c,
      int (*d)(int, int), int e, int f, int g)
{
}' && catches size codec/wire.c
lines 601 >"$tree/tests/long.py" && catches size tests/long.py

for call in strcpy strcat sprintf vsprintf atoi atol atof strtok gets scanf sscanf alloca rand; do
    plant worker/intake/intake.c "void f(void) { $call(a); }" && catches banned worker/intake/intake.c
done
plant tests/unit/codec/test_wire.c 'int f(void) { return a ? 0 : atoi(b); }'
catches banned tests/unit/codec/test_wire.c

for word in "TO""DO" "FIX""ME" "X""XX" "HA""CK"; do
    plant codec/wire.c "/* $word: later */" && catches words codec/wire.c
done
plant README.md "TO""DO write this" && catches words README.md
plant codec/wire.h 'typedef struct mr_x mr_x;' && catches words codec/wire.h

rm "$tree/codec/wire.h" && catches modules codec/wire.c
rm "$tree/tests/unit/kvcache/test_pool.c" && catches modules kvcache/pool.c
rm "$tree/tests/unit/ops/cpu_kernels/test_norm.c" && catches modules ops/cpu_kernels/norm_avx512.c
echo 'int main(void) { return 0; }' >"$tree/tests/unit/codec/test_part.c"
catches modules tests/unit/codec/test_part.c

header "$tree/codec/lonely.h" 'int mr_lonely(void);' && catches dead codec/lonely.h
sed -i '/kvcache.pool/d' "$tree/batching/base/queue.c" && catches dead kvcache/pool.h

plant docker/a.sh 'cd /work/tree' && catches machine docker/a.sh
plant docker/a.sh 'cp a /home/me/b' && catches machine docker/a.sh
plant docker/a.sh 'cat /tmp/notes' && catches machine docker/a.sh
plant docker/a.sh "pip install --index-url https://pypi.""org/simple a" && catches machine docker/a.sh
plant docker/a.sh 'FROM registry.example/a' && catches machine docker/a.sh

plant codec/README.md 'calls `mr_gone`' && catches pages codec/README.md
plant codec/README.md 'calls `mr_gone_*`' && catches pages codec/README.md
plant codec/README.md 'see `kvcache/gone.h`' && catches pages codec/README.md
plant codec/README.md 'see `gone.c`' && catches pages codec/README.md
plant codec/README.md 'see `_gone.c`' && catches pages codec/README.md
plant codec/README.md 'see `tests/unit/gone/`' && catches pages codec/README.md
plant codec/README.md 'with `make gone`' && catches pages codec/README.md
plant codec/README.md 'it has 62 mutants' && catches pages codec/README.md
plant codec/README.md 'its eleven tests' && catches pages codec/README.md
plant docker/guide/use.md 'set `--gone`' && catches pages docker/guide/use.md
plant docker/guide/use.md 'run `millrace serve --gone 1`' && catches pages docker/guide/use.md
plant docker/guide/use.md '
```sh
build/millrace serve \
    --gone 1
```' && catches pages docker/guide/use.md
plant docker/guide/use.md 'watch `millrace_gone_total`' && catches pages docker/guide/use.md
plant docker/asyncapi.yaml 'description: see `millrace_gone`' && catches pages docker/asyncapi.yaml
plant docker/guide/use.md '[more](gone.md)' && catches pages docker/guide/use.md
plant docker/guide/use.md '[more](reference.md#gone)' && catches pages docker/guide/use.md
plant docker/guide/use.md 'see `codec/wire.c`' && catches pages docker/guide/use.md
plant docker/guide/use.md 'calls `mr_wire`' && catches pages docker/guide/use.md

plant codec/part.c 'int  f( void );' && catches format codec/part.c

# globals.sh finds writable objects in object files, with every form of source.
plant_object() { # plant_object TEXT: succeeds if globals.sh reports the compiled text
    printf '%s\n' "$1" >"$scratch/object.c"
    ${CC:-cc} -c -fPIC -o "$scratch/object.o" "$scratch/object.c"
    rm -f "$scratch/libplanted.a"
    ar qc "$scratch/libplanted.a" "$scratch/object.o"
    ! "$here/globals.sh" "$scratch/libplanted.a" >/dev/null
}
for text in 'int counter = 1;' 'static int last; int f(void) { return last++; }' \
    'int f(void) { static int n; return n++; }' '_Thread_local int each;'; do
    plants=$((plants + 1))
    plant_object "$text" || { echo "FAILED: globals.sh does not find: $text" && failures=$((failures + 1)); }
done
if plant_object 'const int b = 1; static const char *const names[] = {"a"};
    const char *f(int i) { return names[i]; }'; then
    echo "FAILED: globals.sh reports constants"
    failures=$((failures + 1))
fi

# rooms.py finds a circle of calls in object files, independent of the includes.
make_library() { # make_library NAME: a.c calls b.c, which calls NAME; a.c defines a and c
    printf 'int b(void);\nint a(void) { return b(); }\nint c(void) { return 0; }\n' >"$scratch/a.c"
    printf 'int %s(void);\nint b(void) { return %s(); }\n' "$1" "$1" >"$scratch/b.c"
    rm -f "$scratch/libcalls.a"
    for unit in a b; do "${CC:-cc}" -c -o "$scratch/$unit.c.o" "$scratch/$unit.c"; done
    ar qc "$scratch/libcalls.a" "$scratch/a.c.o" "$scratch/b.c.o"
}
plants=$((plants + 1))
make_library a
if "$here/rooms.py" symbols "$scratch/libcalls.a" >/dev/null; then
    echo "FAILED: rooms.py does not find two files that call each other" && failures=$((failures + 1))
fi
make_library elsewhere
if ! "$here/rooms.py" symbols "$scratch/libcalls.a" >/dev/null; then
    echo "FAILED: rooms.py reports calls in one direction" && failures=$((failures + 1))
fi

if [ "$failures" != 0 ]; then
    echo "$failures of $plants checks failed"
    exit 1
fi
echo "the clean tree passes; all $plants planted violations are found"
