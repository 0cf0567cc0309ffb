#!/usr/bin/env python3
"""Whether the thread sanitizer finds the race that is planted, between these functions, and ends the program.

  expect_race.py PROGRAM PLANT FUNCTION...
"""
import os
import subprocess
import sys

FOUND = 66  # the sanitizer's own exit status


def main():
    program, plant, *functions = sys.argv[1:]
    options = f"{os.environ.get('TSAN_OPTIONS', '')}:halt_on_error=1:exitcode={FOUND}"
    done = subprocess.run([program, plant], capture_output=True, text=True, env={**os.environ, "TSAN_OPTIONS": options})
    summary = [line for line in done.stderr.splitlines() if line.startswith("SUMMARY:")]
    if done.returncode == FOUND and len(summary) == 1 and "data race" in summary[0] and all(
            f" {function} " in done.stderr for function in functions):
        return 0
    print(f"no race of {', '.join(functions)} is reported: exit status {done.returncode}")
    print(done.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
