#!/usr/bin/env python3
"""Holds who may include whom: folders point down only, and each outside library has its place.

  check_includes.py [ROOT]

Paths start at the root of the repository; a file's own header comes first; an internal.h stays in its folder.
Prints one line a fault and exits 1 when there is one.
"""
import fnmatch
import os
import re
import sys

from source import line_of, list_files, read, without_comments

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ANY = "*"
# folder -> what it may include of ours, as patterns; its own folder is always allowed
MAY_INCLUDE = {
    "base": [],
    "tokenizer": ["base/*.h"],
    "kernels": ["base/*.h", "model/token_batch.h"],  # token_batch.h is a leaf: plain integers
    "batching": ["base/*.h", "model/token_batch.h"],
    "model": ["base/*.h", "kernels/[a-z]*.h"],
    "server": ["base/*.h", "tokenizer/*.h", "batching/*.h", "model/*.h", "kernels/[a-z]*.h", "bench/client/*.h",
               "bench/experiment/*.h", "bench/common/*.h"],
    "bench/client": ["base/*.h", "batching/trace.h", "batching/random.h"],  # linked into the program
    "bench/experiment": ["base/*.h", "bench/client/*.h"],  # likewise
    "bench/common": ["base/*.h", "kernels/cpu/*.h"],  # peaks: linked into the program
    "bench": [ANY],
    "tests": [ANY],
}
LEAF = "model/token_batch.h"  # what points here must not be led on
# outside header -> the files that may include it
LIBRARIES = {
    "cjson/*": ["tokenizer/*", "model/config*", "model/safetensors*", "model/json*", "server/*"],
    "utf8proc.h": ["tokenizer/*"],
    "gnutls/*": ["server/keys*.c"],
    "microhttpd.h": ["server/http*.c", "server/http_internal.h", "bench/http_floor/http_floor.c"],
    "jemalloc/*": ["server/metrics*.c"],
    "cmocka.h": ["tests/*"],
    "immintrin.h": ["kernels/cpu/*"],
    "x86intrin.h": ["kernels/cpu/*"],
    "cpuid.h": ["kernels/cpu/*"],
    "sanitizer/*": ["base/*", "kernels/simt/*", "tests/*"],
    "dlfcn.h": ["kernels/plugin.c", "kernels/cuda/*", "server/nvml.c", "tests/*"],
    "cublas*.h": ["kernels/cuda/runtime.h"],
    "cuda_*.h": ["kernels/cuda/runtime.h", "kernels/cuda/ptx.h"],
    "nvtx3/*": ["kernels/cuda/range.c", "tests/*"],
    "execinfo.h": ["tests/*"],
    "tuple": ["kernels/simt/device.h"],
    "type_traits": ["kernels/simt/device.h"],
}
LIBC = set("""
arpa/inet.h assert.h ctype.h dirent.h errno.h fcntl.h fenv.h float.h getopt.h inttypes.h limits.h linux/futex.h
locale.h malloc.h math.h netdb.h netinet/in.h netinet/tcp.h poll.h pthread.h sched.h semaphore.h setjmp.h signal.h stdalign.h stdarg.h
stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h stdnoreturn.h string.h strings.h sys/epoll.h sys/eventfd.h
sys/ioctl.h sys/mman.h sys/prctl.h sys/random.h sys/resource.h sys/select.h sys/socket.h sys/stat.h sys/syscall.h sys/time.h
sys/timerfd.h sys/types.h sys/uio.h sys/un.h sys/wait.h syslog.h time.h unistd.h
""".split())
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.M)


def matches(path, patterns):
    return any(fnmatch.fnmatchcase(path, p) and (p == ANY or p.count("/") == path.count("/") or p.endswith("/*"))
               for p in patterns)


def folder_of(path):
    """The deepest folder of it that the table has."""
    two = "/".join(path.split("/")[:2])
    return two if two in MAY_INCLUDE else path.split("/")[0]


def fault_of_ours(path, target, known):
    folder, target_folder = folder_of(path), folder_of(target)
    if target not in known:
        return f'"{target}" is no file; paths start at the root'
    if os.path.basename(target).endswith("internal.h") and os.path.dirname(target) != os.path.dirname(path):
        if folder != "tests":
            return f'"{target}" is for its own folder'
    if path == LEAF:
        return f'"{target}": {LEAF} is a leaf and includes nothing of ours'
    if folder not in MAY_INCLUDE:
        return f"folder {folder}/ is not in the table of MAY_INCLUDE"
    if target_folder != folder and not matches(target, MAY_INCLUDE[folder]):
        return f'{folder}/ may not include "{target}"'
    return None


def fault_of_outside(path, target):
    if target in LIBC:
        return None
    for pattern, users in LIBRARIES.items():
        if fnmatch.fnmatchcase(target, pattern):
            return None if matches(path, users) else f"<{target}> is for {', '.join(users)}"
    return f"<{target}> is not in the tables of LIBC and LIBRARIES"


def faults_of_file(root, path, known):
    text = without_comments(read(root, path), strings_too=False)
    own = os.path.splitext(path)[0] + ".h"
    includes = list(INCLUDE.finditer(text))
    if path.endswith(".c") and own in known and (not includes or includes[0].group(1) != own):
        yield f'{path}:1: includes its own header "{own}" first'
    for m in includes:
        ours, outside = m.groups()
        fault = fault_of_ours(path, ours, known) if ours else fault_of_outside(path, outside)
        if fault:
            yield f"{path}:{line_of(text, m.start())}: {fault}"


def check(root):
    known = set(list_files(root))
    sources = [p for p in sorted(known) if p.endswith((".c", ".h")) and "/" in p]
    return [fault for path in sources for fault in faults_of_file(root, path, known)]


if __name__ == "__main__":
    found = check(sys.argv[1] if len(sys.argv) > 1 else ROOT)
    print("\n".join(found) or "includes: clean")
    sys.exit(bool(found))
