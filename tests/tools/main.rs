// SPDX-License-Identifier: BSD-3-Clause
//! The tools as users run them: the programs braid-bench, braid-top and braid-cluster, against
//! the server under test.
//!
//!   cargo test -p braid-tests --test tools
//!
//! The programs are taken from `BRAID_TEST_PROGRAMS`; if that is not set, they are built.

mod active;
mod bench;
mod cluster;
mod top;

use std::process::Command;

pub use braid_tests::server::tool as program;

/// CVE-2018-12326: a host name longer than any buffer. CVE-2021-32762: a reply that announces an
/// impossible number of elements.
#[test]
fn oversized_host_names_and_replies_cause_clean_errors() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    std::thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let _ = std::io::Write::write_all(&mut &socket, b"*1073741824\r\n%9223372036854775807\r\n");
        }
    });
    let host = "h".repeat(20_000);
    for arguments in [&["-h", &host][..], &["-h", "127.0.0.1", "-p", &port]] {
        let tools =
            [("braid-bench", &["-n", "10"][..]), ("braid-top", &["--once"]), ("braid-cluster", &["status"])];
        for (name, more) in tools {
            let output = Command::new(program(name)).args(arguments).args(more).output().expect("it starts");
            assert!(output.status.code().is_some_and(|code| code != 0), "{name}: {:?}", output.status);
            assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{name}");
        }
    }
}
