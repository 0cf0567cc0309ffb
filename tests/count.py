#!/usr/bin/env python3
"""Counts what test runs reported: prints "PASSED FAILED SKIPPED" over all the files named.

  count.py FILE...    meson's testlog.json, or the JUnit XML that pytest writes

A file that is missing, cannot be read or reports no test at all counts as one failure: nothing ran.
"""
import json
import sys
import xml.etree.ElementTree

SKIPPED_BY_MESON = "SKIP"
PASSED_BY_MESON = {"OK", "EXPECTEDFAIL"}


def count_meson(path):
    with open(path, encoding="utf-8") as f:
        results = [json.loads(line)["result"] for line in f if line.strip()]
    skipped = results.count(SKIPPED_BY_MESON)
    passed = sum(r in PASSED_BY_MESON for r in results)
    return passed, len(results) - passed - skipped, skipped


def count_junit(path):
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for suite in xml.etree.ElementTree.parse(path).getroot().iter("testsuite"):
        for key in totals:
            totals[key] += int(suite.get(key, 0))
    failed = totals["failures"] + totals["errors"]
    return totals["tests"] - failed - totals["skipped"], failed, totals["skipped"]


def count(path):
    try:
        counts = count_meson(path) if path.endswith(".json") else count_junit(path)
    except (OSError, ValueError, KeyError, xml.etree.ElementTree.ParseError) as reason:
        print(f"count: {path}: {reason}", file=sys.stderr)
        return 0, 1, 0
    if sum(counts) == 0:
        print(f"count: {path}: no test ran", file=sys.stderr)
        return 0, 1, 0
    return counts


if __name__ == "__main__":
    print(*(sum(column) for column in zip(*(count(path) for path in sys.argv[1:]))))
