#!/usr/bin/env bash
# Everything that only a machine with an NVIDIA GPU can tell: is it right, is it as fast as it should be.
#
#   tests/gpu.sh [FOLDER [STEP...]]     results go to FOLDER (default build-gpu/results): summary.md, figures.csv,
#                                       peers.csv, a log each step
#
# Steps, in this order, or those that are named:
#   build              the program and the plugin; without it, what stands in build-gpu is taken
#   kernels            kernel tests against the reference
#   golden-PRECISION   golden logits in float32, float16 and bfloat16
#   grid               the forward grid beside its goals (tests/gpu/grid.py), what has a goal first
#   peers              torch with SDPA and onnxruntime, where they are installed (tests/gpu/gpu_peers.py)
#   sanitizer-TOOL     the kernel tests under compute-sanitizer: memcheck, racecheck, synccheck, initcheck
# Each has a limit in seconds, and what does not end costs no other its turn; summary.md is whole after each of them.
# Needs nvcc and a driver. Ends with "N passed, N failed, N skipped"; the exit status is 0 when nothing failed, 77 where
# there is no GPU. From the environment: BERTH_GPU_BUILD, the build folder; BERTH_GPU_DEVICE=simt, to try this script
# without a GPU; BERTH_GPU_GRID and BERTH_GPU_PEERS, options of the two; BERTH_GPU_PYTHON, which has the peers;
# BERTH_GPU_LIMIT, seconds for every step.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

export build=${BERTH_GPU_BUILD:-build-gpu} device=${BERTH_GPU_DEVICE:-cuda} python=${BERTH_GPU_PYTHON:-python3}
export results=${1:-$build/results}
shift $(($# > 0))
steps=("$@")
ended=()
passed=0
failed=0
skipped=0

make_build() {
    if [ ! -f "$build/build.ninja" ]; then
        meson setup "$build" --buildtype=release -Dcuda=enabled || return 1
    fi
    ninja -C "$build"
}

kernels() {
    BERTH_ACCELERATOR=$device "$build/tests/kernels/test_kernels" --accelerator
}

golden() { # PRECISION
    local models
    models=$(cd tests/golden/models && echo *)
    # shellcheck disable=SC2086 # a word a model
    "$build/tests/golden/logits/golden_logits" "$device-$1" tests/golden $models
}

grid() {
    # shellcheck disable=SC2086 # options
    "$python" tests/gpu/grid.py --berth "$build/berth" --out "$results" --device "$device" ${BERTH_GPU_GRID:-}
}

peers() {
    # shellcheck disable=SC2086 # options
    "$python" tests/gpu/gpu_peers.py --out "$results" ${BERTH_GPU_PEERS:-}
}

sanitizer() { # TOOL
    if ! command -v compute-sanitizer >/dev/null; then
        echo "compute-sanitizer is not installed"
        return 77
    fi
    BERTH_ACCELERATOR=$device compute-sanitizer --tool "$1" --error-exitcode 1 "$build/tests/kernels/test_kernels" \
        --accelerator
}
export -f make_build kernels golden grid peers sanitizer

write_summary() {
    {
        printf '# On a GPU\n\n%s\n%s\n\n' "- $(gpu_name)" "- Commit: $(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)"
        printf '| Step | Ended | Seconds |\n|---|---|---|\n'
        printf '%s\n' "${ended[@]}"
        for part in grid peers; do
            [ -f "$results/$part.md" ] && printf '\n' && cat "$results/$part.md"
        done
    } >"$results/summary.md"
}

gpu_name() {
    if [ "$device" = cuda ]; then
        nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | head -n 1
    else
        echo "no GPU: $device"
    fi
}

wanted() { # NAME
    [ ${#steps[@]} -eq 0 ] || printf '%s\n' "${steps[@]}" | grep -qxF -- "$1"
}

step() { # NAME SECONDS COMMAND...: exit status 77 is a skip
    local name=$1 limit=${BERTH_GPU_LIMIT:-$2} code=0 start=$SECONDS words log="$results/$1.log"
    shift 2
    wanted "$name" || return 0
    timeout --kill-after=10 "$limit" bash -c '"$@"' step "$@" >"$log" 2>&1 || code=$?
    case $code in
    0) passed=$((passed + 1)) && words="ok" ;;
    77) skipped=$((skipped + 1)) && words="skipped: $(tail -n 1 "$log" | tr '|' '/')" ;;
    124 | 137) failed=$((failed + 1)) && words="NOT ENDED after $limit s" ;;
    *) failed=$((failed + 1)) && words="FAILED ($code)" ;;
    esac
    printf '%-24s %s\n' "$name" "$words"
    if [ $code -ne 0 ] && [ $code -ne 77 ]; then
        echo "    the end of $log:"
        tail -n 20 "$log" | sed 's/^/    /'
    fi
    ended+=("| $name | $words | $((SECONDS - start)) |")
    write_summary
}

if [ "$device" = cuda ] && ! nvidia-smi -L >/dev/null 2>&1; then
    echo "gpu.sh: nvidia-smi finds no GPU; this script needs one (BERTH_GPU_DEVICE=simt tries it without)"
    exit 77
fi
mkdir -p "$results" && rm -f "$results"/{grid,peers}.md
BERTH_PLUGIN_DIR=$(realpath -m "$build")
export BERTH_PLUGIN_DIR
known=(build kernels golden-{float32,float16,bfloat16} grid peers sanitizer-{memcheck,racecheck,synccheck,initcheck})
for name in "${steps[@]}"; do
    if ! printf '%s\n' "${known[@]}" | grep -qxF -- "$name"; then
        echo "gpu.sh: there is no step $name; there are ${known[*]}"
        exit 2
    fi
done
step build 900 make_build
step kernels 300 kernels
for precision in float32 float16 bfloat16; do
    step "golden-$precision" 120 golden "$precision"
done
step grid 600 grid
step peers 400 peers
for tool in memcheck racecheck synccheck initcheck; do
    step "sanitizer-$tool" 600 sanitizer "$tool"
done
printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
