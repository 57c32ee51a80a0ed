#!/bin/sh
# scripts/setup.sh core|dev [COMMAND...]: makes .venv whole where it is not, then becomes COMMAND.
# All output is on stderr: stdout belongs to the command.
#
# .venv/ready-core and .venv/ready-dev hold what was installed: the folder of the checkout (an editable
# install breaks when it moves), pyproject.toml and constraints.txt. Where the one asked for agrees with
# the checkout, there is nothing to do. .venv.unfinished stands from the first step to the last; a .venv
# that is found with it cannot be trusted, and is made anew.
set -eu

level=$1
shift
root=$(CDPATH='' cd -P -- "$(dirname -- "$0")/.." && pwd)
venv=$root/.venv
lock=$root/.venv.lock
unfinished=$root/.venv.unfinished

say() { printf 'ch: %s\n' "$*" >&2; }
fail() { say "$*, and run this again."; exit 1; }

wanted() { printf '%s\n' "$root" && cat "$root/pyproject.toml" "$root/constraints.txt"; }
ready() { [ -x "$venv/bin/python" ] && [ -f "$venv/ready-$1" ] && wanted | cmp -s - "$venv/ready-$1"; }

# The lock is a folder with one file, named after the process that holds it. Renaming that file succeeds
# for one process only, so that a dead holder has one heir.
take_lock() {
    told=
    tries=0
    until problem=$(mkdir "$lock" 2>&1) && touch "$lock/$$" 2>/dev/null; do
        if [ ! -d "$lock" ]; then # it cannot be made, or was released a moment ago
            tries=$((tries + 1))
            [ "$tries" -lt 5 ] || fail "cannot write in $root ($problem): check its owner and the free disk space"
            continue
        fi
        holder=$(ls "$lock" 2>/dev/null || true)
        if [ -n "$holder" ] && ! kill -0 "$holder" 2>/dev/null; then
            mv "$lock/$holder" "$lock/$$" 2>/dev/null && return
        fi
        [ -n "$told" ] || say "waiting for another set-up (process ${holder:-unknown}; if there is none, remove $lock)"
        told=yes
        sleep 1
        [ -n "$holder" ] || rmdir "$lock" 2>/dev/null || true # its maker died before the next step
    done
}

release_lock() {
    rm -f "$lock/$$"
    rmdir "$lock" 2>/dev/null || true # not empty: it is another's
}

# Whether $1 is a Python that the package runs on and that has the module $2.
suits() { "$1" -c "import sys, $2; sys.exit(sys.version_info < (3, 11))" >/dev/null 2>&1; }

find_python() {
    for python in ${CHOP_PYTHON:+"$CHOP_PYTHON"} python3 python3.13 python3.12 python3.11; do
        if suits "$python" sys; then
            suits "$python" ensurepip && return
            fail "$python has no venv module: install it (Debian and Ubuntu: apt install python3-venv)"
        fi
        [ -z "${CHOP_PYTHON:-}" ] || fail "CHOP_PYTHON=$CHOP_PYTHON is no Python 3.11 or newer: name another"
    done
    fail "no Python 3.11 or newer was found: install one, or name it in CHOP_PYTHON"
}

make_venv() {
    find_python
    say "making $venv with $python"
    "$python" -m venv --clear "$venv" >&2 ||
        fail "$venv could not be made (see above): check the free disk space"
}

install() (
    case $level in core) target=".[search]" ;; *) target=".[$level]" ;; esac
    cd "$root"
    "$venv/bin/python" -m pip install --disable-pip-version-check --no-input -c constraints.txt -e "$target" >&2
)

set_up() {
    say "setting up .venv ($level); this happens once and can take some minutes"
    if [ -e "$unfinished" ]; then
        say "the last set-up did not finish: beginning again"
        rm -rf "$venv"
    fi
    touch "$unfinished" || fail "cannot write in $root: check its owner and the free disk space"
    suits "$venv/bin/python" pip || make_venv
    rm -f "$venv"/ready-*
    say "installing the versions of constraints.txt"
    install || fail "the dependencies could not be installed (see above): check the network and the free disk space"
    for name in core "$level"; do
        wanted >"$venv/ready-$name" || fail "$venv/ready-$name could not be written: check the free disk space"
    done
    rm "$unfinished"
    say "set up"
}

if ! ready "$level"; then
    trap release_lock EXIT
    trap 'say "set-up interrupted: the next start begins it again"; exit 130' INT TERM HUP
    take_lock
    ready "$level" || set_up
    release_lock
    trap - EXIT INT TERM HUP
fi
exec "$@"
