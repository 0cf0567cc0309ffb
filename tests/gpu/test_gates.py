"""What nvcc makes of the kernels: no spills, registers below a ceiling, and the instructions they are written for.

Where there is no nvcc these are skipped. No GPU is needed, and none is asked.
"""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
SOURCES = sorted((ROOT / "kernels" / "cuda").glob("*.cu"))
REAL = ("80", "90")  # code is made for these, and PTX for 100
pytestmark = pytest.mark.skipif(not NVCC, reason="nvcc is not installed")

# Registers a thread: a kernel, and what its template arguments have to match. With 65,536 a multiprocessor, 128 threads
# at 168 registers are 12 warps; at 128, 16; at 80, 24; at 64, 32.
CEILINGS = [
    (r"attention_mma_kernel<.*, 128>", 200),
    (r"attention_mma_kernel<.*, 64>", 160),
    (r"attention_mma_kernel<.*, 32>", 112),
    (r"attention_kernel<", 104),
    (r"(layernorm|embed)_kernel<.*, 8>", 168),
    (r"(layernorm|embed)_kernel<.*, [1-4]>", 96),
    (r"exact_linear_kernel<", 96),
    (r"(activate|mean|first)_kernel<", 48),
]
# Instructions of each instance in PTX for compute_100, at least: 16-byte copies, matrix loads, products. A warp loads
# its queries (D / 16 ldmatrix), keys (4 * D / 16) and values (4 * D / 16, transposed), and multiplies 8 * D / 16 times
# for the scores and as often for the sums.
ATTENTION = {d: {"cp.async.cg": 5 * d // 16, "ldmatrix.sync.aligned.m8n8.x4.shared": 5 * d // 16,
                 "ldmatrix.sync.aligned.m8n8.x4.trans": 4 * d // 16, "mma.sync.aligned.m16n8k16": 16 * d // 16}
             for d in (32, 64, 128)}
# Loads and stores of global memory go by 16 bytes.
VECTORS = r"(layernorm|embed|first|mean|activate|exact_linear)_kernel<"


def compile_one(source, folder, *arguments):
    out = folder / f"{source.stem}-{abs(hash(arguments))}"
    done = subprocess.run([NVCC, "-std=c++17", "-O3", "-I", ROOT, *arguments, source, "-o", out], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stderr, out


def plain(names):
    """C++ names as they were written; some versions give numbers their type, as in (int)64."""
    done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return done.stdout.replace("(int)", "").splitlines()


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """(architecture, kernel) -> registers, bytes of spills; as ptxas tells."""
    folder = tmp_path_factory.mktemp("cubin")
    jobs = [(s, a) for s in SOURCES for a in REAL]

    def one(job):
        source, a = job
        return a, compile_one(source, folder, f"-gencode=arch=compute_{a},code=sm_{a}", "-cubin", "-Xptxas=-v")[0]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = {}
        for a, text in pool.map(one, jobs):
            names = re.findall(r"Compiling entry function '(\w+)'", text)
            spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", text)
            registers = re.findall(r"Used (\d+) registers", text)
            assert len(names) == len(spills) == len(registers) > 0
            for name, (stores, loads), n in zip(plain(names), spills, registers):
                found[a, name] = (int(n), int(stores) + int(loads))
    return found


@pytest.fixture(scope="module")
def ptx(tmp_path_factory):
    """kernel -> its PTX for compute_100."""
    folder = tmp_path_factory.mktemp("ptx")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        outs = list(pool.map(lambda s: compile_one(s, folder, "-arch=compute_100", "-ptx")[1], SOURCES))
    bodies = {}
    for out in outs:
        for m in re.finditer(r"\.entry (\w+)\(.*?\n\}\n", out.read_text(), re.S):
            bodies[m.group(1)] = m.group()
    return dict(zip(plain(bodies), bodies.values()))


def test_no_spills(reports):
    assert [k for k, (_, spilled) in reports.items() if spilled] == []


def test_register_ceilings(reports):
    for (architecture, name), (registers, _) in reports.items():
        ceiling = next((c for pattern, c in CEILINGS if re.search(pattern, name)), None)
        assert ceiling, f"{name} has no ceiling in the table"
        assert registers <= ceiling, (architecture, name, registers)
    for pattern, _ in CEILINGS:
        assert any(re.search(pattern, name) for _, name in reports), f"{pattern} is no kernel"


def test_attention_is_made_of_its_instructions(ptx):
    seen = 0
    for name, body in ptx.items():
        found = re.search(r"attention_mma_kernel<(.*), (\d+)>", name)
        if not found:
            continue
        seen += 1
        for instruction, least in ATTENTION[int(found.group(2))].items():
            assert body.count(instruction) >= least, (name, instruction, body.count(instruction))
        of_type = "bf16" if "bfloat16" in found.group(1) else "f16"
        assert f".f32.{of_type}.{of_type}.f32" in body
        assert ("ex2.approx.f16x2" in body) == (found.group(2) == "32")
    assert seen == 12  # three head dims, two types, ctx of that type or fp32


def test_rows_go_by_16_bytes(ptx):
    for name, body in ptx.items():
        if re.search(VECTORS, name):
            assert re.search(r"ld\.global(\.nc)?\.v4", body), name
            if "exact_linear" not in name:  # whose result is a value a warp
                assert re.search(r"st\.global\.v4", body), name
