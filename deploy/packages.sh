#!/usr/bin/env bash
# Installs what is missing from the sections of packages.txt, or says what is.
#
#   packages.sh install SECTION...   as root, or through sudo; prints the command and exits 1 when it can do neither
#   packages.sh missing SECTION...   prints the missing packages, a line each
#
# Nothing that is there is touched, and no recommended packages come along.
set -euo pipefail

list="$(dirname "${BASH_SOURCE[0]}")/packages.txt"

say() {
    printf 'packages: %s\n' "$*"
}

names_of() { # SECTION: its lines, alternatives and all
    awk -v want="[$1]" '/^[[:space:]]*(#|$)/ { next } /^\[/ { on = ($0 == want); next } on' "$list"
}

is_installed() { # PACKAGE
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

any_installed() { # "a | b"
    local name
    for name in ${1//|/ }; do
        if is_installed "$name"; then
            return 0
        fi
    done
    return 1
}

missing() { # SECTION...
    local section names line
    for section in "$@"; do
        names=$(names_of "$section")
        if [ -z "$names" ]; then
            say "no section [$section] in $list" >&2
            return 2
        fi
        while read -r line; do
            any_installed "$line" || printf '%s\n' "${line%% *}"
        done <<<"$names"
    done
}

install_missing() { # SECTION...
    local names
    names=$(missing "$@") || return
    if [ -z "$names" ]; then
        say "nothing to install"
        return 0
    fi
    mapfile -t names <<<"$names"
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            say "please run this as root, then come back:"
            printf '  apt-get update && apt-get install --no-install-recommends %s\n' "${names[*]}"
            return 1
        fi
        as_root=(sudo)
    fi
    say "installing ${names[*]}"
    "${as_root[@]}" apt-get update -q
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${names[@]}"
}

if ! command -v dpkg-query >/dev/null; then
    say "this needs Debian 12 or Ubuntu 22.04, or later; elsewhere install what $list names by hand" >&2
    exit 1
fi
action=${1:-}
[ $# -ge 2 ] || action=
case $action in
install) shift && install_missing "$@" ;;
missing) shift && missing "$@" ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 2
    ;;
esac
