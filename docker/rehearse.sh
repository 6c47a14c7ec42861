#!/bin/bash
# Runs the container build and the make targets in fresh Debian roots made by debootstrap. Requires root.
#
#   docker/rehearse.sh image               runs docker/Dockerfile stage by stage, then the demo in its last stage
#   docker/rehearse.sh demo trixie|bookworm  runs `make demo` of the committed tree in an empty root, twice
#   docker/rehearse.sh test trixie|bookworm  runs `make test` the same way; build and check too
#
# A pristine root of each release is made once and kept in the cache of docker/deps.sh. Each run works in a
# copy and removes it afterwards; KEEP=1 keeps the copy. WARM=1 mounts this machine's download cache into the
# image build. The pip configuration and the local certificate authorities of this machine are copied into
# the root, so that package clients reach the same servers.
set -euo pipefail

what=${1:-}
release=${2:-trixie}
tree=$(cd "$(dirname "$0")/.." && pwd)
cache=${MILLRACE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/millrace}/roots
work=$(mktemp -d "${TMPDIR:-/var/tmp}/millrace-rehearsal.XXXXXX")
mounts=()

say() { echo "rehearse: $*" >&2; }

clean_up() {
    local i held=${KEEP:-}
    for ((i = ${#mounts[@]} - 1; i >= 0; i--)); do umount -l "${mounts[i]}" || held=yes; done
    [ -n "$held" ] || rm -rf --one-file-system "$work"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

mount_at() { # mount_at PLACE MOUNT-OPTION...
    local place=$1
    shift
    mkdir -p "$place"
    mount "$@" "$place"
    mounts+=("$place")
}

pristine() { # pristine RELEASE: prints the path of the root; creates it if needed
    local root=$cache/$1
    if [ ! -d "$root" ]; then
        say "debootstrap $1"
        mkdir -p "$cache"
        rm -rf "$root.part"
        debootstrap --variant=minbase "$1" "$root.part" >"$work/debootstrap.log" 2>&1 ||
            { tail "$work/debootstrap.log" >&2 && return 1; }
        mkdir -p "$root.part/usr/local/share/ca-certificates" "$root.part/etc/ssl/certs"
        cp /usr/local/share/ca-certificates/*.crt "$root.part/usr/local/share/ca-certificates/" 2>/dev/null || true
        cp /etc/pip.conf "$root.part/etc/" 2>/dev/null || true
        # As in container images: the root is temporary, so dpkg need not sync to disk.
        echo force-unsafe-io >"$root.part/etc/dpkg/dpkg.cfg.d/rehearsal"
        mv "$root.part" "$root"
    fi
    echo "$root"
}

new_root() { # new_root SOURCE-ROOT NAME: copies the root and mounts the file systems that commands in it need
    say "root $2"
    cp -ax "$1" "$work/$2" # -x: without file systems mounted inside
    cp -L /etc/resolv.conf "$work/$2/etc/resolv.conf"
    cp /etc/hosts "$work/$2/etc/hosts"
    mount_at "$work/$2/proc" -t proc proc
    mount_at "$work/$2/sys" -o bind,ro /sys
    mount_at "$work/$2/dev" -o rbind /dev
}

inside() { # inside ROOT WORKDIR ENV-FILE [USER] < commands
    local settings=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
        LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive)
    local name line
    for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY PIP_INDEX_URL; do
        [ -z "${!name:-}" ] || settings+=("$name=${!name}")
    done
    while read -r line; do settings+=("$line"); done <"$3"
    chroot ${4:+--userspec="$4"} "$1" env -i "${settings[@]}" bash -ec "cd '$2'; $(cat)" </dev/null
}

# --- The steps of the Dockerfile --------------------------------------------------------------------------

copy_into() { # copy_into ROOT WORKDIR ARGUMENTS: COPY [--from=STAGE] SOURCE... TARGET
    local root=$1 place=$2 from=$tree
    shift 2
    if [[ $1 == --from=* ]]; then
        from=$work/${1#--from=}
        shift
    fi
    local target=${!#}
    [[ $target == /* ]] || target=$place/$target
    if [ "$*" = ". ." ]; then
        git -C "$tree" ls-files -co --exclude-standard -z | (cd "$tree" && xargs -0 cp --parents -t "$root$target")
        return
    fi
    local source
    for source in "${@:1:$#-1}"; do
        if [ -d "$from/$source" ]; then
            mkdir -p "$root$target" && cp -a "$from/$source/." "$root$target"
        else
            mkdir -p "$root$target" && cp -a "$from/$source" "$root$target"
        fi
    done
}

rehearse_image() {
    local stage='' place=/ user='' settings=$work/settings started keyword rest mount
    # Drops comments and joins continued lines.
    sed -e '/^[[:space:]]*#/d' "$tree/docker/Dockerfile" | sed -e ':a' -e '/\\$/N; s/\\\n//; ta' >"$work/steps"
    while read -r keyword rest <&3; do
        started=$SECONDS
        case $keyword in
        '' | ARG | EXPOSE | STOPSIGNAL | HEALTHCHECK | ENTRYPOINT | CMD) continue ;;
        FROM)
            [[ $rest =~ ^([^ ]+)\ AS\ ([a-z]+)$ ]]
            if [ -d "$work/${BASH_REMATCH[1]}" ]; then
                new_root "$work/${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
            else
                [ "${BASH_REMATCH[1]}" = '${BASE}' ]
                new_root "$(pristine trixie)" "${BASH_REMATCH[2]}"
                : >"$settings"
                place=/
            fi
            stage=$work/${BASH_REMATCH[2]}
            ;;
        WORKDIR) place=$rest && mkdir -p "$stage$place" ;;
        ENV) echo "$rest" >>"$settings" ;;
        USER) user=$rest ;;
        COPY)
            # shellcheck disable=SC2086
            copy_into "$stage" "$place" $rest
            ;;
        RUN)
            mount=
            if [[ $rest == --mount=type=cache,target=* ]]; then
                mount=${rest#--mount=type=cache,target=}
                rest=${mount#* }
                mount=${mount%% *}
                local downloads=$work/downloads
                [ -z "${WARM:-}" ] || downloads=$(dirname "$cache")
                mkdir -p "$downloads"
                mount_at "$stage$mount" -o bind "$downloads"
            fi
            inside "$stage" "$place" "$settings" <<<"$rest"
            if [ -n "$mount" ]; then
                umount "$stage$mount"
                unset 'mounts[-1]'
            fi
            ;;
        *) say "cannot rehearse $keyword" && return 1 ;;
        esac
        say "$((SECONDS - started)) s  $keyword ${rest:0:70}"
    done 3<"$work/steps"
    say "the runtime root holds $(du -sm --one-file-system "$stage" | cut -f1) MB"
    try_runtime "$stage" "$settings" "$user"
}

# Runs `millrace demo` in a read-only root.
try_runtime() { # try_runtime ROOT ENV-FILE USER
    local model
    model=$(find "$work/build/src/.deps/model" -name '*.gguf')
    mount_at "$1/model" -o bind,ro "$(dirname "$model")"
    mount_at "$1/tmp" -t tmpfs tmpfs
    mount --rbind "$1" "$1" && mounts+=("$1") # rbind: with the mounts inside
    mount -o remount,bind,ro "$1"
    inside "$1" / "$2" "$3:$3" <<<"id -u; ! touch /probe 2>/dev/null; millrace demo --model '/model/$(basename "$model")'"
}

# --- An empty machine ----------------------------------------------------------------------------

rehearse_make() { # rehearse_make GOAL: runs it twice, without and with its downloads cached
    new_root "$(pristine "$release")" newcomer
    local root=$work/newcomer started
    : >"$work/settings"
    git clone -q "$tree" "$root/millrace"
    inside "$root" / "$work/settings" <<<'apt-get update -qq; apt-get install -y -qq --no-install-recommends make git >/dev/null 2>&1'
    for cache_state in cold warm; do
        started=$SECONDS
        inside "$root" /millrace "$work/settings" <<<"make $1"
        say "make $1 on an empty $release, $cache_state: $((SECONDS - started)) s"
    done
}

[ "$(id -u)" = 0 ] || { say "must run as root" && exit 2; }
case $what in
image) rehearse_image ;;
demo | test) rehearse_make "$what" ;;
build | check) rehearse_make "$what" ;;
*) echo "usage: docker/rehearse.sh image | demo|test|build|check [trixie|bookworm]" >&2 && exit 2 ;;
esac
