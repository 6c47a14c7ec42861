#!/bin/sh
# Checks the rules of the source tree that no compiler checks. Prints one line per violation, "rule: file:
# what is wrong", and fails if there is any. tests/tidy/test_tidy.sh tests every rule with a planted violation.
#
#   tests/tidy/tidy.sh [--root FOLDER] [RULE…]      default: all rules, on the tree of this file
#
# Uses the clang-format that docker/deps.sh installs, or MILLRACE_CLANG_FORMAT.
set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
clang_format=${MILLRACE_CLANG_FORMAT:-$root/.deps/clang-format/clang-format}
if [ "${1:-}" = --root ]; then
    root=$2
    shift 2
fi
cd "$root" || exit 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

folders='codec kvcache ops batching worker'

# The files of the tree: those that git lists, or without git all files except builds and downloads.
if [ -e .git ]; then
    git ls-files -co --exclude-standard | while read -r file; do [ ! -f "$file" ] || echo "$file"; done
else
    find . \( -name .git -o -name .deps -o -name 'build*' \) -prune -o -type f -print | sed 's|^\./||'
fi | sort >"$scratch/all"

files() { # files PATTERN: the files of the tree whose path matches
    grep -E "$1" "$scratch/all"
}
written() { # written EXCEPT: the files that were written by hand, but those whose path matches EXCEPT
    files '.' | grep -vE '^(LICENSE|tests/golden/.*\.(json|bin|txt|jsonl|msgpack)|tests/fuzz/(corpus|found)/.*)$' | grep -vE "$1"
}
sources() { # the product's C, C++ and CUDA files
    files "^($(echo $folders | tr ' ' '|'))/.*\.(c|h|cpp|cu|cuh)$"
}
all_sources() { # those and the files of the tests
    files "^($(echo $folders | tr ' ' '|')|tests)/.*\.(c|h|cpp|cu|cuh)$"
}

# Prints "file TAB line TAB text" for C files, without comments, and without strings if STRINGS is "drop".
code() { # code STRINGS FILES…
    [ $# -gt 1 ] || return 0
    drop=$1
    shift
    awk -v drop="$drop" '
        FNR == 1 { comment = 0 }
        {
            out = ""; n = length($0); text = 0
            for (i = 1; i <= n; i++) {
                two = substr($0, i, 2); c = substr($0, i, 1)
                if (comment) { if (two == "*/") { comment = 0; i++ } continue }
                if (text) {
                    if (c == "\\") { i++; c = two }
                    else if (c == quote) { text = 0 }
                    if (drop != "drop" || !text) out = out c
                    continue
                }
                if (two == "/*") { comment = 1; i++; out = out " "; continue }
                if (two == "//") break
                if (c == "\"" || c == "\047") { text = 1; quote = c }
                out = out c
            }
            gsub(/\t/, " ", out)
            if (out ~ /[^ ]/) print FILENAME "\t" FNR "\t" out
        }' "$@"
}

# --- The rules. Each one prints "file: what is wrong" ---------------------------------------------------

# The top level has these entries and dot files, nothing else.
rule_top() {
    cut -d/ -f1 "$scratch/all" | sort -u | grep -v '^\.' | grep -vxE \
        'CMakeLists.txt|worker|batching|kvcache|codec|ops|tests|docker|README.md|Makefile|LICENSE|CHANGELOG.md' |
        sed 's/$/: not an entry of the top level/'
}

# Includes between folders as in tests/tidy/rooms.txt, no include circle.
rule_rooms() {
    "$here/rooms.py" --root . check
}

# Every external library is included in one place only.
rule_home() {
    code keep $(sources) | awk -F'\t' '
        BEGIN {
            home["msgpack"] = "codec/wire/wire.c"; home["jansson"] = "codec/wire/json.c"
            home["torch"] = home["ATen"] = home["c10"] = "ops/torch/*.cpp"
            home["hiredis"] = "kvcache/remote/redis_command.c"; home["librdkafka"] = "worker/kafka/*.c"
            home["microhttpd"] = "worker/http/http.c worker/gateway/server.c"; home["yaml"] = "worker/config/config_file.c"
            home["zlib"] = home["zstd"] = "worker/batch/unpacked.c"
            home["pcre2"] = "codec/unicode/regex.c"; home["utf8proc"] = "codec/unicode/unicode.c"
            home["openssl"] = "codec/sha256.c codec/aes_gcm.c codec/base64.c kvcache/remote/redis_conn_tls.c"; home["xxhash"] = "kvcache/remote/block_frame.c ops/weights/weights_digest.c"
        }
        $3 ~ /^[ \t]*#[ \t]*include[ \t]*</ {
            name = $3; sub(/^[^<]*</, "", name); sub(/>.*/, "", name); sub(/[\/.].*/, "", name)
            if (!(name in home)) next
            want = home[name]; ok = index(" " want " ", " " $1 " ")
            if (want ~ /\*/) { split(want, part, "*"); ok = index($1, part[1]) == 1 && substr($1, length($1) - length(part[2]) + 1) == part[2] }
            if (!ok) print $1 ": " name " may be included only in " want
        }'
    files '\.(cpp|cc|cxx|hpp)$' | grep -v '^ops/torch/' | sed 's/$/: C++ is allowed only in ops\/torch/'
    files '\.(cu|cuh)$' | grep -v '^\(ops\|tests\)/cuda/' | sed 's/$/: CUDA is allowed only in ops\/cuda and tests\/cuda/'
}

# The folders below worker use no log, clock, environment, thread or sleep. Exceptions: the request queue
# and the queue of the remote cache, which several threads use, have a lock each, a failed assertion prints its place, and ops/cpu_kernels/parallel.c has helper threads.
rule_pure() {
    code drop $(files '^(codec|kvcache|ops|batching)/.*\.(c|h|cpp)$') |
        grep -vE '^(batching/queue/request_queue\.c|kvcache/remote/remote_queue\.c|codec/check\.c|ops/cpu_kernels/parallel\.c)	' | awk -F'\t' '
        match($3, /(^|[^A-Za-z0-9_])(printf|fprintf|puts|perror|getenv|setenv|clock_gettime|gettimeofday|time|clock|nanosleep|usleep|sleep|pthread_[a-z_]*|thrd_create|syslog)[ ]*\(/) {
            print $1 ": line " $2 " calls " substr($3, RSTART, RLENGTH) ") below worker" }'
}

# Limits: files 600 lines, headers 150, functions 70, parameters 6. Exceptions: the request is the widest record
# and its header may have 200 lines; headers with the code of kernel variants count as files; a callback of the
# HTTP library has eight parameters. A function begins and ends with a brace in column one.
rule_size() {
    for file in $(files '\.(c|h|cpp|cu|cuh|sh|py|awk|txt)$'); do
        lines=$(wc -l <"$file")
        case $file in
        codec/records/request.h) limit=200 ;;
        tests/*.h | ops/cpu_kernels/lanes_*.h | ops/cpu_kernels/neon/lanes_*.h | ops/cpu_kernels/quant/lanes_*.h | ops/cpu_kernels/*_body.h) limit=600 ;;
        *.h) limit=150 ;;
        *) limit=600 ;;
        esac
        [ "$lines" -le "$limit" ] || echo "$file: $lines lines, the limit is $limit"
    done
    set -- $(files '\.(c|h|cpp|cu|cuh)$')
    [ $# -gt 0 ] || return 0
    awk '
        FNR == 1 { open = 0; head = "" }
        /^\{/ && head !~ /^(namespace|class)/ { open = FNR; signature = head }
        /^\}/ {
            if (open && FNR - open + 1 > 70)
                print FILENAME ": the function at line " open " has " FNR - open + 1 " lines, the limit is 70"
            if (open && parameters(signature) > 6 && FILENAME != "worker/http/http.c" && FILENAME != "worker/gateway/server.c")
                print FILENAME ": the function at line " open " has more than 6 parameters"
            open = 0
        }
        /^[^ \t{}#\/]/ { head = $0; next }
        /^[ \t]+[^ \t]/ && !open { head = head $0; next }
        /^$/ { head = "" }
        function parameters(text, i, c, depth, n) {
            for (i = 1; i <= length(text); i++) {
                c = substr(text, i, 1)
                if (c == "(") depth++
                if (c == ")") depth--
                if (c == "," && depth == 1) n++
            }
            return n + 1
        }' "$@"
}

# Functions that cannot be used safely, and random numbers that do not come from our seed.
rule_banned() {
    code drop $(all_sources) | awk -F'\t' '
        match($3, /(^|[^A-Za-z0-9_])(strcpy|strcat|sprintf|vsprintf|atoi|atol|atoll|atof|strtok|strtok_r|gets|scanf|sscanf|fscanf|vsscanf|alloca|rand|srand)[ ]*\(/) {
            print $1 ": line " $2 " calls " substr($3, RSTART, RLENGTH) ")" }'
}

# No notes about unfinished work, and no typedef that hides a struct (lanes_*.h below ops/cpu_kernels may name vector types).
rule_words() {
    marks="TO""DO|FIX""ME|X""XX|HA""CK"
    written '^$' | xargs -r grep -nIE "(^|[^A-Za-z_])($marks)([^A-Za-z_]|$)" /dev/null |
        sed 's/^\([^:]*\):\([0-9]*\):.*/\1: line \2 has a note about unfinished work/'
    code drop $(sources | grep -vE '^ops/cpu_kernels/(quant/|neon/)?lanes_') | awk -F'\t' '$3 ~ /typedef[ ]+(struct|enum|union)/ && $3 !~ /\(/ { print $1 ": line " $2 " hides a struct behind a typedef" }'
}

# Every module has a header and a test. Exceptions: a file that is part of a larger module has neither; the
# header of that module names the file. The commands share worker/cli/cli.h and its test. Kernels share
# ops/cpu_kernels/kernels.h; the variants NAME_avx512, NAME_neon and so on are tested together by
# tests/unit/ops/cpu_kernels/test_NAME.c, and the kernel tables (kernels_avx2 and so on) by test_level.c. codec/check.c
# ends the process; every unit test links tests/unit/check_cmocka.c in its place.
rule_modules() {
    for file in $(files "^($(echo $folders | tr ' ' '|'))/.*\.(c|cpp)$"); do
        case $file in worker/cli/main.c | codec/check.c) continue ;; esac
        folder=$(dirname "$file")
        name=$(basename "${file%.*}")
        page=${file%.*}.h
        case $file in
        worker/cli/cli_*) [ -f "$page" ] || { name=cli && page=worker/cli/cli.h; } ;;
        ops/cpu_kernels/kernels_* | ops/cpu_kernels/neon/kernels_* | ops/cpu_kernels/amx/kernels_*) folder=ops/cpu_kernels && name=level && page=ops/cpu_kernels/kernels.h ;;
        ops/cpu_kernels/*)
            name=$(echo "$name" | sed 's/_\(amx\|avx512\|avx512vnni\|avx512f\|avxvnni\|avx2\|neon\|neon_bf16\|scalar\)$//')
            page=ops/cpu_kernels/$name.h
            [ -f "$page" ] || page=ops/cpu_kernels/kernels.h
            ;;
        esac
        if [ ! -f "$page" ]; then
            whole=$(grep -lF "$file" "$folder"/*.h 2>/dev/null | head -1)
            [ -n "$whole" ] || { echo "$file: has no $page" && continue; }
            name=$(basename "$whole" .h)
        fi
        test=tests/unit/$folder/test_$name.c
        [ -f "$test" ] || echo "$file: has no $test"
    done
    for file in $(files '^tests/unit/.*\.c$'); do
        case $file in
        tests/unit/*/test_*.c) grep -q 'cmocka_run_group_tests' "$file" || echo "$file: runs no test" ;;
        esac
    done
}

# A header that only its own .c file and its own test include is dead. A header of the tests must be included
# by a test.
rule_dead() {
    code keep $(all_sources) | awk -F'\t' '$3 ~ /^[ \t]*#[ \t]*include[ \t]*["<]/ {
        path = $3; sub(/^[^"<]*["<]/, "", path); sub(/[">].*/, "", path); print path, $1 }' | sort -u >"$scratch/includes"
    for file in $(files '\.h$'); do
        own=${file%.h}
        name=$file
        case $file in tests/*) own=none && name=$(basename "$file") ;; esac
        awk -v file="$name" -v own="$own.c" -v test="/test_$(basename "$own").c" '
            ($1 == file || substr($1, length($1) - length(file)) == "/" file) && $2 != own && !(substr($2, length($2) - length(test) + 1) == test) { found = 1 }
            END { exit !found }' "$scratch/includes" || echo "$file: only its own .c file and its own test include it"
    done
}

# No paths and no package hosts of one machine.
rule_machine() {
    written '^tests/tidy/' | xargs -r grep -nIE '(^|[^A-Za-z0-9_.$}/])/(work|home|root|mnt|srv)/|(^|[^A-Za-z0-9_.$}/])/opt/(mr|wheels|trixie)|/\.pyenv/|(^|[^A-Za-z0-9_])/tmp/[a-z0-9_.]' /dev/null |
        grep -vE 'X''XXXXX|target=/root/' | sed 's/^\([^:]*\):\([0-9]*\):.*/\1: line \2 names a path of one machine/'
    written '^tests/tidy/' | xargs -r grep -nIiE '(pypi\.org|pythonhosted\.|maven\.org|artifactory|pkg\.dev|quay\.io|ghcr\.io|docker\.io|deb\.debian\.|registry\.[a-z]|\.internal([^a-z_(]|$))' /dev/null |
        sed 's/^\([^:]*\):\([0-9]*\):.*/\1: line \2 names a package host/'
}

# Pages name only files, functions, options and metrics that exist, and their links lead somewhere.
rule_pages() {
    "$here/pages.py" <"$scratch/all"
}

# The layout is that of clang-format.
rule_format() {
    [ -x "$clang_format" ] || { echo "tests/tidy: clang-format is missing: run docker/deps.sh check" && return; }
    all_sources | xargs -r -n 20 -P 2 "$clang_format" --dry-run 2>&1 |
        sed -n 's/^\([^:]*\):\([0-9]*\):[0-9]*: warning: .*/\1: line \2 is not formatted as clang-format does/p' | sort -u
}

[ $# -gt 0 ] || set -- top rooms home pure size banned words modules dead machine pages format
for rule; do
    "rule_$rule" | sed "s/^/$rule: /"
done >"$scratch/found"
cat "$scratch/found"
[ ! -s "$scratch/found" ]
