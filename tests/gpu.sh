#!/usr/bin/env bash
# Everything that only a machine with an NVIDIA GPU can tell: is it right, is it as fast as it should be.
#
#   tests/gpu.sh [FOLDER]     results go to FOLDER (default build-gpu/results): figures.csv, summary.md, a log each step
#
# 1. builds the program and the plugin; 2. kernel tests against the reference; 3. golden logits in fp32, fp16 and bf16;
# 4. the kernel tests under compute-sanitizer, where it is installed; 5. the forward grid (tests/gpu/grid.py).
# Needs nvcc and a driver. Ends with "N passed, N failed, N skipped"; the exit status is 0 when nothing failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

build="build-gpu"
results=${1:-$build/results}
mkdir -p "$results"
passed=0
failed=0
skipped=0

step() { # NAME COMMAND...: exit status 77 is a skip
    local name=$1 code=0
    shift
    "$@" >"$results/$name.log" 2>&1 || code=$?
    case $code in
    0) passed=$((passed + 1)) && printf '%-24s ok\n' "$name" ;;
    77) skipped=$((skipped + 1)) && printf '%-24s skipped: %s\n' "$name" "$(tail -n 1 "$results/$name.log")" ;;
    *)
        failed=$((failed + 1))
        printf '%-24s FAILED (%d), the end of %s:\n' "$name" "$code" "$results/$name.log"
        tail -n 20 "$results/$name.log" | sed 's/^/    /'
        ;;
    esac
}

make_build() {
    if [ ! -f "$build/build.ninja" ]; then
        meson setup "$build" --buildtype=release -Dcuda=enabled || return 1
    fi
    ninja -C "$build"
}

kernels() {
    BERTH_ACCELERATOR=cuda "$build/tests/kernels/test_kernels" --accelerator
}

golden() { # PRECISION
    local models
    models=$(cd tests/golden/models && echo *)
    # shellcheck disable=SC2086 # a word a model
    "$build/tests/golden/logits/golden_logits" "cuda-$1" tests/golden $models
}

sanitizer() { # TOOL
    if ! command -v compute-sanitizer >/dev/null; then
        echo "compute-sanitizer is not installed"
        return 77
    fi
    BERTH_ACCELERATOR=cuda compute-sanitizer --tool "$1" --error-exitcode 1 "$build/tests/kernels/test_kernels" \
        --accelerator
}

export BERTH_PLUGIN_DIR=$PWD/$build
step build make_build
step kernels kernels
for precision in float32 float16 bfloat16; do
    step "golden-$precision" golden "$precision"
done
for tool in memcheck racecheck synccheck initcheck; do
    step "sanitizer-$tool" sanitizer "$tool"
done
step grid python3 tests/gpu/grid.py --berth "$build/berth" --out "$results"
printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
