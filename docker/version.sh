#!/bin/sh
# The version of this tree: $MILLRACE_VERSION if that is set, as in the image build. Else what git knows: at the tag
# v0.1.0 it is 0.1.0, five commits later 0.1.0-5-g78f44c9; without a tag, as in a shallow clone, the version of
# CMakeLists.txt and the commit, 0.1.0-g78f44c9. Changes that are not committed add -dirty. Without a repository it is
# the version of CMakeLists.txt.
#
#   docker/version.sh           prints it
#   docker/version.sh FILE.c    writes the C file that defines mr_version (worker/base/version.h), unless it is the same
set -eu
tree=$(cd "$(dirname "$0")/.." && pwd)
project=$(sed -n 's/^project(millrace VERSION \([0-9.]*\).*/\1/p' "$tree/CMakeLists.txt")

describe() { # describe GIT-DESCRIBE-OPTION...
    git --no-optional-locks -C "$tree" -c safe.directory="$tree" describe --dirty "$@" 2>/dev/null
}

version=${MILLRACE_VERSION:-}
if [ -z "$version" ] && [ -e "$tree/.git" ]; then # a file in a worktree
    if ! version=$(describe --tags --match 'v[0-9]*'); then
        version=$(describe --always --exclude '*') && version=$project-g$version
    fi
fi
version=${version:-$project}
version=${version#v}
case $version in
*[!A-Za-z0-9.-]*) echo "docker/version.sh: '$version' is not a version" >&2 && exit 1 ;;
esac

if [ $# = 0 ]; then
    echo "$version"
    exit
fi
text="#include \"worker/base/version.h\"

const char mr_version[] = \"$version\";"
[ -f "$1" ] && [ "$(cat "$1")" = "$text" ] || echo "$text" >"$1"
