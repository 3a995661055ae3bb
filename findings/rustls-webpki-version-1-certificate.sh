#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# rustls-webpki 0.103.16 (crates.io) beside OpenSSL (Debian's openssl 3.0): a certificate that
# `openssl x509 -req` signs without -extfile is of X.509 version 1. OpenSSL verifies it, and stock Redis serves with
# it and admits clients with it; rustls-webpki, and so every rustls server and client, refuses it with
# UnsupportedCertVersion, whose text names no cure. With any extension the certificate is of version 3 and is taken.
#
# Seen with OpenSSL 3.0.19 and rustls-webpki 0.103.16. Fails if either behaves differently.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
openssl req -x509 "${key[@]}" -keyout ca.key -out ca.pem -days 30 -subj /CN=ca 2>/dev/null
openssl req "${key[@]}" -keyout leaf.key -out leaf.csr -subj /CN=leaf 2>/dev/null
sign() { openssl x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 "$@" 2>/dev/null; }
sign -outform der -out plain.der
echo 'subjectAltName=DNS:leaf' >extensions
sign -extfile extensions -outform der -out extended.der

version_of() { openssl x509 -in "$1" -inform der -noout -text | sed -n 's/^ *Version: //p'; }
[ "$(version_of plain.der)" = '1 (0x0)' ]
[ "$(version_of extended.der)" = '3 (0x2)' ]
openssl x509 -in plain.der -inform der -out plain.pem
[ "$(openssl verify -CAfile ca.pem plain.pem)" = 'plain.pem: OK' ]

cargo init --quiet --name finding --vcs none .
cat >>Cargo.toml <<'END'
rustls-webpki = { version = "=0.103.16", default-features = false, features = ["std"] }
END
cat >src/main.rs <<'END'
fn main() {
    for file in ["plain.der", "extended.der"] {
        let der = std::fs::read(file).unwrap().into();
        match webpki::EndEntityCert::try_from(&der) {
            Ok(_) => println!("{file}: taken"),
            Err(error) => println!("{file}: {error}"),
        }
    }
}
END
found=$(cargo run --quiet)
echo "$found"
[ "$found" = $'plain.der: UnsupportedCertVersion\nextended.der: taken' ]
