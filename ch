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

run() { # run EXTRA COMMAND...: install what an extra lists if necessary, then replace this process
    extra=$1
    shift
    exec "$root/scripts/setup.sh" "$extra" "$@"
}

case ${1:-} in
    setup) # ch setup EXTRA...: install optional packages
        shift
        case ${1:-} in -h | --help) exec "$root/scripts/setup.sh" --help ;; esac
        for extra in "${@:-core}"; do "$root/scripts/setup.sh" "$extra" true; done
        ;;
    python) # ch python [ARGUMENTS]: a Python that can import chop
        shift
        run core "$root/.venv/bin/python" "$@"
        ;;
    notebook) # ch notebook [ARGUMENTS]: JupyterLab in the current folder
        shift
        case ${1:-} in
            -h | --help)
                echo "usage: $0 notebook [OPTIONS OF JUPYTERLAB]: start JupyterLab, which is installed if necessary"
                exit
                ;;
        esac
        run notebook "$root/.venv/bin/python" -m jupyterlab "$@"
        ;;
    *) run core "$root/.venv/bin/python" -P -m chop "$@" ;;
esac
