#!/usr/bin/env bash
# From a clone to a classified sentence: packages, release build, demo model, server, three requests.
#
#   quickstart.sh [--port N] [--once]
#
#   --port N   listen on 127.0.0.1:N; default 8080
#   --once     stop the server again at the end
#
# Run it as often as you like: what is done already is not done again, and a server that an earlier run left
# running is used. Debian 12, Ubuntu 22.04, and later. Everything it makes lies in build-release/ and build/.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
build=$root/build-release
berth=$build/berth
model=$root/build/demo-model
ready_timeout_s=30
stop_timeout_s=30
port=8080
once=
started= # the server is this run's own
pid=

say() {
    printf '\n== %s\n' "$*"
}

fail() {
    printf '\nquickstart: %s\n' "$*" >&2
    exit 1
}

read_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
        --port)
            port=${2:-}
            if ! [[ $port =~ ^[1-9][0-9]{0,4}$ ]] || [ "$port" -gt 65535 ]; then
                fail "--port wants a number from 1 to 65535"
            fi
            shift
            ;;
        --once) once=yes ;;
        -h | --help)
            sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
            exit 0
            ;;
        *) fail "unknown argument $1; --help tells" ;;
        esac
        shift
    done
    url=http://127.0.0.1:$port
    pid_file=$build/quickstart-$port.pid
    log=$build/quickstart-$port.log
}

port_answers() {
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null
}

# Sets pid when a server that an earlier run started is still there; a pid alone may be another program's by now.
find_running() {
    pid=
    if [ -r "$pid_file" ]; then
        local found
        found=$(cat "$pid_file")
        case $(readlink "/proc/$found/exe" 2>/dev/null) in
        "$berth" | "$berth (deleted)") pid=$found ;;
        esac
    fi
}

check_port() {
    find_running
    if [ -z "$pid" ] && port_answers; then
        fail "port $port is taken by another program; choose one: deploy/quickstart.sh --port 8090"
    fi
}

install_packages() {
    say "1/5 packages"
    "$root/deploy/packages.sh" install build demo
}

build_release() {
    say "2/5 release build in build-release/"
    if [ ! -f "$build/build.ninja" ]; then
        mkdir -p "$build"
        # Warnings stop a developer's build, not a user's: compilers to come will warn of more.
        meson setup "$build" "$root" -Dtests=disabled -Dwerror=false >"$build/setup.log" ||
            { cat "$build/setup.log" && fail "meson setup failed"; }
    fi
    ninja -C "$build" berth || fail "the build failed"
}

fetch_model() {
    say "3/5 demo model"
    python3 "$root/deploy/demo-model/fetch.py" "$model"
}

show_log_and_fail() {
    printf '\nThe end of the log (%s):\n' "$log" >&2
    tail -n 20 "$log" >&2
    fail "$1"
}

wait_for_ready() {
    local deadline=$((SECONDS + ready_timeout_s))
    until curl -fs --noproxy '*' -o /dev/null --max-time 2 "$url/health"; do
        kill -0 "$pid" 2>/dev/null || show_log_and_fail "the server ended before it was ready"
        [ "$SECONDS" -lt "$deadline" ] || show_log_and_fail "the server was not ready within $ready_timeout_s s"
        sleep 0.05
    done
}

start_server() {
    say "4/5 server on $url"
    check_port # once more: the build took a while
    if [ -n "$pid" ]; then
        echo "the server of an earlier run is running (process $pid)"
        if [ "$berth" -nt "$pid_file" ]; then
            echo "it is older than the build; to run the new one: kill $pid, then this script again"
        fi
        wait_for_ready
        return
    fi
    setsid "$berth" serve "$model" --port "$port" >"$log" 2>&1 </dev/null &
    pid=$!
    started=yes
    echo "$pid" >"$pid_file"
    wait_for_ready
    echo "ready (process $pid, log $log)"
}

classify() { # SENTENCE, without quotes and backslashes
    local headers
    headers=$(mktemp)
    printf '\n> %s\n' "$1"
    curl -sS --fail-with-body --noproxy '*' --max-time 30 -D "$headers" -H 'Content-Type: application/json' \
        -d "{\"inputs\": \"$1\"}" "$url/predict" || { rm -f "$headers" && show_log_and_fail "the request failed"; }
    printf '\n'
    grep -iE '^(server-timing|berth-batch):' "$headers" | tr -d '\r' || true
    rm -f "$headers"
}

stop_server() {
    kill -TERM "$pid" 2>/dev/null || true
    local deadline=$((SECONDS + stop_timeout_s))
    while kill -0 "$pid" 2>/dev/null && [ "$SECONDS" -lt "$deadline" ]; do
        sleep 0.05
    done
    if kill -0 "$pid" 2>/dev/null; then
        show_log_and_fail "process $pid did not stop within $stop_timeout_s s"
    fi
    rm -f "$pid_file"
}

# A run that breaks off leaves no server of its own behind.
stop_on_failure() {
    local code=$?
    trap - EXIT
    if [ "$code" -ne 0 ] && [ -n "$started" ]; then
        kill -TERM "$pid" 2>/dev/null || true
        rm -f "$pid_file"
    fi
    exit "$code"
}

read_arguments "$@"
trap stop_on_failure EXIT
check_port
install_packages
build_release
fetch_model
start_server
say "5/5 three sentences"
classify "A warm, funny film; I would watch it again tomorrow."
classify "The battery died after two days and nobody answered my letters."
classify "The first half drags and the songs are forgettable, but the ending is so well played that I left the cinema happy."

if [ -n "$once" ] && [ -n "$started" ]; then
    stop_server
    say "done in $SECONDS s; the server has been stopped"
else
    say "done in $SECONDS s; the server runs on. Try it:"
    printf "curl %s/predict -H 'Content-Type: application/json' -d '{\"inputs\": \"your sentence\"}'\n" "$url"
    printf 'Stop it: kill %s\n' "$pid"
fi
