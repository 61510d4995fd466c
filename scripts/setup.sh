#!/usr/bin/env bash
# Make a virtual environment from requirements.lock, on a machine that may have little more than
# Python 3.11+, git and make. Says what it does in a few lines; the words of pip and apt-get go to
# a log that is shown when something fails.
#
#     scripts/setup.sh .venv          PYTHON=python3.12 scripts/setup.sh .venv
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${1:-.venv}
log=$(mktemp "${TMPDIR:-/tmp}/watersmeet-setup.XXXXXX")

say() { printf 'setup: %s\n' "$*"; }

fail() {
    if [ -s "$log" ]; then
        printf -- '--- the end of %s\n' "$log" >&2
        tail -n 25 "$log" >&2
        printf -- '---\n' >&2
    else
        rm -f "$log"
    fi
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

# Ask the interpreter itself: a pyenv shim is on PATH even when no version stands behind it.
suitable() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null
}

# Debian packs ensurepip apart from Python, and `-m venv` fails without it.
complete() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

find_python() {
    local candidate incomplete=
    if [ -n "${PYTHON:-}" ]; then
        suitable "$PYTHON" || fail "PYTHON=$PYTHON is not a working Python 3.11 to 3.14."
        python=$PYTHON
        return
    fi
    # The system's own by full name too: a shim in front of it on PATH may hide it.
    for candidate in python3 python3.{13,12,11,14} /usr/bin/python3 /usr/local/bin/python3; do
        candidate=$(command -v "$candidate") && suitable "$candidate" || continue
        if complete "$candidate"; then
            python=$candidate
            return
        fi
        incomplete=${incomplete:-$candidate}
    done
    [ -n "$incomplete" ] || fail "no working Python 3.11 to 3.14 was found." \
        "Install one (as root: apt-get install python3 python3-venv), or name one:" \
        "    make setup PYTHON=/path/to/python3"
    python=$incomplete
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# The package of this very version: python3-venv serves only the system's default Python.
install_ensurepip() {
    local package
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    export DEBIAN_FRONTEND=noninteractive
    as_root apt-get install -qy "$package" ||
        { as_root apt-get -q update && as_root apt-get install -qy "$package"; }
}

make_environment() {
    if complete "$python"; then
        "$python" -m venv --clear "$venv"
    elif "$python" -m virtualenv --version; then
        "$python" -m virtualenv --clear "$venv"
    elif "$python" -m pip --version; then
        "$python" -m venv --without-pip --clear "$venv" &&
            "$python" -m pip --python "$venv/bin/python" install pip
    else
        install_ensurepip && "$python" -m venv --clear "$venv"
    fi
} >>"$log" 2>&1

if suitable "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    say "using the environment in $venv ($("$venv/bin/python" -V))"
else
    find_python
    say "making $venv with $python ($("$python" -V))"
    make_environment || fail "$python could make no virtual environment." \
        "It needs ensurepip (as root: apt-get install python3-venv), or pip, or virtualenv."
fi

say "installing what requirements.lock names (the first time, some 800 MB are fetched)"
"$venv/bin/python" -m pip install --disable-pip-version-check \
    --require-hashes -r requirements.lock >>"$log" 2>&1 ||
    fail "the packages in requirements.lock could not be installed." \
        "Is the package index reachable? \`$venv/bin/python -m pip config list\` says what pip was told."

# Without isolation, since the lock holds the build's own needs: nothing else is fetched.
"$venv/bin/python" -m pip install --disable-pip-version-check \
    --no-deps --no-build-isolation --editable . >>"$log" 2>&1 ||
    fail "watersmeet itself could not be installed into $venv."

rm -f "$log"
