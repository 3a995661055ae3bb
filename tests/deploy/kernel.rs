// SPDX-License-Identifier: BSD-3-Clause
//! Adaptation to the kernel's settings, which a mount namespace replaces by other ones.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use braid_tests::TestServer;
use braid_tests::server::{Options, is_braid, program_under_test};

use crate::{is_there, runs};

const PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

#[test]
fn transparent_huge_pages_are_off_where_all_programs_would_get_them() {
    let test = "transparent_huge_pages_are_off_where_all_programs_would_get_them";
    let can = runs("unshare", &["--mount", "mount", "--bind", "/dev/null", PAGES]);
    if !is_braid() || !Path::new(PAGES).exists() || !is_there(test, "right to make a mount namespace", can) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (modes, disable, expected) in [
        ("[always] madvise never", "yes", "0"),
        ("[always] madvise never", "no", "1"),
        ("always [madvise] never", "yes", "1"),
    ] {
        let (file, program) = (folder.path().join("modes"), folder.path().join("server"));
        std::fs::write(&file, modes).expect("written");
        let script = format!(
            "#!/bin/sh\nexec unshare --mount sh -c 'mount --bind {} {PAGES} && exec {} \"$@\"' sh \"$@\"\n",
            file.display(),
            program_under_test().display()
        );
        std::fs::write(&program, script).expect("written");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("executable");
        let arguments = ["--disable-thp", disable].map(str::to_owned).to_vec();
        let options = Options { program: Some(program), arguments, ..Options::default() };
        let server = TestServer::start_with(options);
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.process_id()));
        let status = status.expect("a process");
        let enabled = status.lines().find_map(|line| line.strip_prefix("THP_enabled:")).map(str::trim);
        assert_eq!(enabled, Some(expected), "{modes}, disable-thp {disable}");
    }
}
