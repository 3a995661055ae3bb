# SPDX-License-Identifier: BSD-3-Clause
"""What the programs of this folder have in common: the port, and counted checks."""

import sys

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 6379
URL = f"redis://127.0.0.1:{PORT}"
_count = 0


def same(found, expected, what=""):
    global _count
    if found != expected:
        raise SystemExit(f"{what}: {found!r} instead of {expected!r}")
    _count += 1


def true(found, what=""):
    same(bool(found), True, what)


def done():
    print(f"{_count} checks passed")
