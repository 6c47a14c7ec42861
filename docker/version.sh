#!/bin/sh
# The version of this tree. CMakeLists.txt has its two parts: the project's VERSION, and MR_VERSION_SUFFIX, which is
# "-dev" between releases and empty in the commit that is released. So a clone needs no tags.
#
#   tree                                     version
#   between releases, a commit               0.2.0-dev+g78f44c9
#   the same with uncommitted changes        0.2.0-dev+g78f44c9.dirty
#   the released commit                      0.2.0
#   the same with uncommitted changes        0.2.0+g78f44c9.dirty
#   without a repository, or without git     the two parts alone: 0.2.0-dev, 0.2.0
#
# $MILLRACE_VERSION replaces all of this, as in the image build, which has no repository.
#
#   docker/version.sh           prints it
#   docker/version.sh FILE.c    writes the C file that defines mr_version (worker/base/version.h), unless it is the same
set -eu
tree=$(cd "$(dirname "$0")/.." && pwd)

part() { # part PATTERN: the match of the pattern in CMakeLists.txt
    sed -n "s/^$1.*/\\1/p" "$tree/CMakeLists.txt"
}

commit() { # the hash of the checked-out commit, with .dirty if there are uncommitted changes; nothing without a commit
    [ -e "$tree/.git" ] || return 0 # a file in a worktree
    git --no-optional-locks -C "$tree" -c safe.directory="$tree" describe --always --exclude '*' --dirty=.dirty \
        2>/dev/null || true
}

version=${MILLRACE_VERSION:-}
if [ -z "$version" ]; then
    suffix=$(part 'set(MR_VERSION_SUFFIX "\([a-z0-9.-]*\)")')
    hash=$(commit)
    version=$(part 'project(millrace VERSION \([0-9.]*\)')$suffix
    case $suffix:$hash in
    *:) ;;
    :*.dirty | -*) version=$version+g$hash ;;
    esac
fi
version=${version#v}
case $version in
*[!A-Za-z0-9.+-]*) echo "docker/version.sh: '$version' is not a version" >&2 && exit 1 ;;
esac

if [ $# = 0 ]; then
    echo "$version"
    exit
fi
text="#include \"worker/base/version.h\"

const char mr_version[] = \"$version\";"
[ -f "$1" ] && [ "$(cat "$1")" = "$text" ] || echo "$text" >"$1"
