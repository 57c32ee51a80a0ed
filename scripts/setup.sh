#!/bin/sh
# scripts/setup.sh core|EXTRA [COMMAND...]: creates or updates .venv if necessary, then executes COMMAND.
# An extra is a list in pyproject.toml, such as dev. Messages go to stderr, because stdout belongs to the
# command, and the output of pip goes to .venv.log.
#
# .venv/ready-core, .venv/ready-dev, ... record what was installed: the path of the checkout (an editable
# install breaks when it moves), pyproject.toml and constraints.txt. If the record matches the checkout,
# there is nothing to do. .venv.unfinished exists while a set-up runs; if it exists at the start of another
# one, .venv may be incomplete and is created again.
set -eu

level=$1
shift
root=$(CDPATH='' cd -P -- "$(dirname -- "$0")/.." && pwd)
venv=$root/.venv
lock=$root/.venv.lock
unfinished=$root/.venv.unfinished
log=$root/.venv.log

say() { printf 'ch: %s\n' "$*" >&2; }
fail() { say "$*, and run this again."; exit 1; }

extras() {
    sed -n '/^\[project.optional-dependencies\]/,/^\[project.scripts\]/s/^\([a-z]*\) = .*/\1/p' "$root/pyproject.toml"
}

check_level() {
    for name in core $(extras); do
        [ "$level" != "$name" ] || return 0
    done
    say "unknown extra '$level'; known are" $(extras)
    exit 2
}

wanted() { printf '%s\n' "$root" && cat "$root/pyproject.toml" "$root/constraints.txt"; }
ready() { [ -x "$venv/bin/python" ] && [ -f "$venv/ready-$1" ] && wanted | cmp -s - "$venv/ready-$1"; }

# The lock is a folder with one file, named after the process that holds it. If that process has died,
# another one takes the lock by renaming the file, which succeeds for one process only.
take_lock() {
    announced=
    tries=0
    until problem=$(mkdir "$lock" 2>&1) && touch "$lock/$$" 2>/dev/null; do
        if [ ! -d "$lock" ]; then # it cannot be created, or was just released
            tries=$((tries + 1))
            [ "$tries" -lt 5 ] || fail "cannot write to $root ($problem): check its owner and the free disk space"
            continue
        fi
        holder=$(ls "$lock" 2>/dev/null || true)
        if [ -n "$holder" ] && ! kill -0 "$holder" 2>/dev/null; then
            mv "$lock/$holder" "$lock/$$" 2>/dev/null && return
        fi
        [ -n "$announced" ] || say "waiting for another set-up (process ${holder:-unknown}; if it does not exist, remove $lock)"
        announced=yes
        sleep 1
        [ -n "$holder" ] || rmdir "$lock" 2>/dev/null || true # its creator died before adding the file
    done
}

release_lock() {
    rm -f "$lock/$$"
    rmdir "$lock" 2>/dev/null || true # not empty: another process holds it
}

# Whether $1 is a supported Python that has the module $2.
suits() { "$1" -c "import sys, $2; sys.exit(sys.version_info < (3, 11))" >/dev/null 2>&1; }

find_python() {
    for python in ${CHOP_PYTHON:+"$CHOP_PYTHON"} python3 python3.13 python3.12 python3.11; do
        if suits "$python" sys; then
            suits "$python" ensurepip && return
            fail "$python has no venv module: install it (Debian and Ubuntu: apt install python3-venv)"
        fi
        [ -z "${CHOP_PYTHON:-}" ] || fail "CHOP_PYTHON=$CHOP_PYTHON is not Python 3.11 or newer: set it to another one"
    done
    fail "Python 3.11 or newer was not found: install it, or set CHOP_PYTHON to its path"
}

make_venv() {
    find_python
    "$python" -m venv --clear "$venv" >>"$log" 2>&1 ||
        fail "cannot create $venv with $python: see $log, check the free disk space"
}

install() (
    case $level in core) target=".[data,search]" ;; *) target=".[data,search,$level]" ;; esac
    cd "$root"
    if "$venv/bin/python" -m pip install --disable-pip-version-check --no-input -c constraints.txt -e "$target" 2>&1
    then echo "exit 0"; else echo "exit 1"; fi | follow
)

# Copies the output of pip to the log, shows its progress on a terminal, and returns its exit code.
follow() {
    count=0
    while IFS= read -r line; do
        printf '%s\n' "$line" >>"$log"
        case $line in
            "exit 0") draw "" && return 0 ;;
            "exit 1") draw "" && return 1 ;;
            "Collecting "*) line=${line#Collecting } count=$((count + 1)) && draw "found $count packages: ${line%% *}" ;;
            "Installing collected"*) draw "installing $count packages; this takes longest" ;;
        esac
    done
    return 1
}

draw() { [ ! -t 2 ] || printf '\r\033[K%s' "${1:+ch: $1}" >&2; }

set_up() {
    say "setting up .venv ($level), which is needed once and takes a few minutes; details in $log"
    started=$(date +%s)
    : >"$log" || fail "cannot write to $root: check its owner and the free disk space"
    if [ -e "$unfinished" ]; then
        say "the last set-up did not finish: starting again"
        rm -rf "$venv"
    fi
    touch "$unfinished" || fail "cannot write to $root: check its owner and the free disk space"
    suits "$venv/bin/python" pip || make_venv
    rm -f "$venv"/ready-*
    if ! install; then
        sed -n '/^ERROR/p' "$log" | tail -n 3 >&2
        fail "cannot install the dependencies: see $log, check the network and the free disk space"
    fi
    for name in core "$level"; do
        wanted >"$venv/ready-$name" || fail "cannot write $venv/ready-$name: check the free disk space"
    done
    rm "$unfinished"
    say "set-up finished after $(($(date +%s) - started)) s"
}

if [ "$level" = --help ]; then
    echo "usage: ch setup EXTRA...: install optional packages; extras:" $(extras)
    exit
fi
if ! ready "$level"; then
    check_level
    trap release_lock EXIT
    trap 'say "set-up interrupted: the next command starts it again"; exit 130' INT TERM HUP
    take_lock
    ready "$level" || set_up
    release_lock
    trap - EXIT INT TERM HUP
fi
exec "$@"
