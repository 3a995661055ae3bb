#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Valkey 9.1.2 (Debian unstable) and its own valkey-cli: as soon as one hash field has an expiry time, `valkey-cli --rdb`
# gets no copy. The tool does not tell the server which version it is, so the server writes the file for a reader of
# RDB version 11, finds that this has no place for the field's time, and closes the connection; the server's log says
# that it can't store the key. valkey-cli ends with status 1 and a text about an I/O or bulk length error, and may leave
# the beginning of a file. SAVE, BGSAVE and replicas work, and so does --rdb once the field's time has been removed.
# So a backup by --rdb stops working on the day when an application sets the first such time.
#
# Seen with valkey-server and valkey-cli 9.1.2. Fails if they behave differently.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
"$(dirname "$0")/../tests/peers/install" "$folder" >/dev/null
cd "$folder"
[[ $(bin/valkey-server --version) == *'v=9.1.2 '* && $(bin/valkey-cli --version) == 'valkey-cli 9.1.2'* ]]

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
bin/valkey-server --port "$port" --save '' --dir "$folder" --repl-diskless-sync-delay 0 >log 2>&1 &
server=$!
for _ in $(seq 100); do [ "$(bin/valkey-cli -p "$port" ping 2>/dev/null)" = PONG ] && break; sleep 0.1; done

bin/valkey-cli -p "$port" hset hash a 1 b 2 >/dev/null
bin/valkey-cli -p "$port" --rdb plain.rdb >/dev/null 2>&1
[[ $(head -c 9 plain.rdb) == REDIS0011 ]]

[ "$(bin/valkey-cli -p "$port" hexpire hash 1000 fields 1 a)" = 1 ]
status=0
bin/valkey-cli -p "$port" --rdb timed.rdb >said 2>&1 || status=$?
tail -n 1 said
[ "$status" = 1 ]
grep -q "Can't store key (db 0) in RDB version 11" log
[ "$(bin/valkey-cli -p "$port" save)" = OK ]
[[ $(head -c 9 dump.rdb) == VALKEY080 ]]

[ "$(bin/valkey-cli -p "$port" hpersist hash fields 1 a)" = 1 ]
bin/valkey-cli -p "$port" --rdb again.rdb >/dev/null 2>&1
[[ $(head -c 9 again.rdb) == REDIS0011 ]]
