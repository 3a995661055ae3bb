#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# etcd 3.4.23 (Debian 12's etcd-server): once authentication is disabled, a request without a token is served, and one
# that still carries a token from before is refused with 401 and a text about an invalid token. So a client that
# authenticates only while it holds a token loses its access at the moment when nothing is forbidden any more. A login
# is then answered with code 9 and "authentication is not enabled", which is not a refusal of the user either: the
# client has to go on without a token. etcdctl 3.4.23 does so after a warning.
#
# Seen with etcd 3.4.23 over its JSON gateway. Fails if it behaves differently.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"

apt-get -o APT::Sandbox::User=root download etcd-server/bookworm etcd-client/bookworm >/dev/null 2>&1
for package in *.deb; do dpkg -x "$package" .; done
[[ $(usr/bin/etcd --version) == 'etcd Version: 3.4.23'* ]]

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
url=http://127.0.0.1:$(free_port)
peer=http://127.0.0.1:$(free_port)
usr/bin/etcd --data-dir data --listen-client-urls "$url" --advertise-client-urls "$url" --listen-peer-urls "$peer" \
    --initial-advertise-peer-urls "$peer" --initial-cluster "default=$peer" >log 2>&1 &
server=$!
for _ in $(seq 100); do curl -sf "$url/health" >/dev/null && break; sleep 0.1; done

post() { curl -s -w ' %{http_code}\n' "$url/v3/$1" -d "$2" "${@:3}"; }
post auth/user/add '{"name":"root","password":"p"}' >/dev/null
post auth/role/add '{"name":"root"}' >/dev/null
post auth/user/grant '{"user":"root","role":"root"}' >/dev/null
post auth/enable '{}' >/dev/null
token=$(post auth/authenticate '{"name":"root","password":"p"}' | sed 's/.*"token":"\([^"]*\)".*/\1/')
range='{"key":"YQ=="}'
[[ $(post kv/range "$range" -H "Authorization: $token") == *' 200' ]]
post auth/disable '{}' -H "Authorization: $token" >/dev/null

without=$(post kv/range "$range")
with=$(post kv/range "$range" -H "Authorization: $token")
login=$(post auth/authenticate '{"name":"root","password":"p"}')
printf 'without a token: %s\nwith the former token: %s\nlogin: %s\n' "$without" "$with" "$login"
[[ $without == *' 200' ]]
[[ $with == *'invalid auth token'*' 401' ]]
[[ $login == *'authentication is not enabled'*'"code":9'* ]]
ETCDCTL_API=3 usr/bin/etcdctl --endpoints "$url" --user root:p put a 1 >said 2>warning
grep -qx OK said
grep -q 'authentication is not enabled' warning
