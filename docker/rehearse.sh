#!/bin/bash
# Rehearses what happens elsewhere in fresh Debian roots made by debootstrap; needs to be root.
#
#   docker/rehearse.sh image               runs docker/Dockerfile stage by stage, then starts its ENTRYPOINT
#   docker/rehearse.sh demo trixie|bookworm  `make demo` of the committed tree in an empty root, cold and warm
#   docker/rehearse.sh test trixie|bookworm  `make test` the same way
#
# A pristine root for each release is made once and kept in the cache of docker/deps.sh; each run works
# in a copy that is removed afterwards (KEEP=1 keeps it). WARM=1 lets the image's download cache be this
# machine's own. The machine's own pip configuration and local
# certificate authorities are copied in, so the package clients inside reach what those outside do.
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

pristine() { # pristine RELEASE: its path
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
        # As in container images: the root is thrown away, so nothing needs to reach the disk.
        echo force-unsafe-io >"$root.part/etc/dpkg/dpkg.cfg.d/rehearsal"
        mv "$root.part" "$root"
    fi
    echo "$root"
}

new_root() { # new_root SOURCE-ROOT NAME: a copy of it, ready to run commands in
    say "root $2"
    cp -ax "$1" "$work/$2" # never what is mounted inside
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

# --- The Dockerfile's steps --------------------------------------------------------------------------

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
    # Joins continued lines, drops comments.
    sed -e '/^[[:space:]]*#/d' "$tree/docker/Dockerfile" | sed -e ':a' -e '/\\$/N; s/\\\n//; ta' >"$work/steps"
    while read -r keyword rest <&3; do
        started=$SECONDS
        case $keyword in
        '' | EXPOSE | STOPSIGNAL | HEALTHCHECK | ENTRYPOINT | CMD) continue ;;
        FROM)
            [[ $rest =~ ^([^ ]+)\ AS\ ([a-z]+)$ ]]
            if [ -d "$work/${BASH_REMATCH[1]}" ]; then
                new_root "$work/${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
            else
                [[ ${BASH_REMATCH[1]} == debian:trixie-slim ]]
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

# The worker's own embedded broker and the small model answer a prompt from a root that cannot be written.
try_runtime() { # try_runtime ROOT ENV-FILE USER
    local model
    model=$(find "$work/build/src/.deps/model" -name '*.gguf')
    mount_at "$1/model" -o bind,ro "$(dirname "$model")"
    mount_at "$1/tmp" -t tmpfs tmpfs
    mount --rbind "$1" "$1" && mounts+=("$1") # with what is mounted inside
    mount -o remount,bind,ro "$1"
    inside "$1" / "$2" "$3:$3" <<<"id -u; ! touch /probe 2>/dev/null; millrace demo --model '/model/$(basename "$model")'"
}

# --- A newcomer's machine ----------------------------------------------------------------------------

rehearse_make() { # rehearse_make GOAL: cold, then warm
    new_root "$(pristine "$release")" newcomer
    local root=$work/newcomer started
    : >"$work/settings"
    git clone -q "$tree" "$root/millrace"
    inside "$root" / "$work/settings" <<<'apt-get update -qq; apt-get install -y -qq --no-install-recommends make git >/dev/null 2>&1'
    for temper in cold warm; do
        started=$SECONDS
        inside "$root" /millrace "$work/settings" <<<"make $1"
        say "make $1 on an empty $release, $temper: $((SECONDS - started)) s"
    done
}

[ "$(id -u)" = 0 ] || { say "needs root" && exit 2; }
case $what in
image) rehearse_image ;;
demo | test) rehearse_make "$what" ;;
build | check) rehearse_make "$what" ;;
*) echo "usage: docker/rehearse.sh image | demo|test|build|check [trixie|bookworm]" >&2 && exit 2 ;;
esac
