#!/bin/sh
# The command line of chop. Sets up .venv on first use, and again whenever the dependencies have changed.
set -eu

self=$0
while [ -L "$self" ]; do # a loop, because not every readlink has -f
    link=$(readlink "$self")
    case $link in
        /*) self=$link ;;
        *) self=$(dirname "$self")/$link ;;
    esac
done
export CHOP_LAUNCHER="$0" # shown in commands that the user can copy
root=$(CDPATH='' cd -P -- "$(dirname -- "$self")" && pwd)

if [ "${1:-}" = setup ]; then # ch setup EXTRA...: install optional packages
    shift
    for extra in "${@:-core}"; do "$root/scripts/setup.sh" "$extra" true; done
    exit
fi
exec "$root/scripts/setup.sh" core "$root/.venv/bin/python" -P -m chop "$@"
