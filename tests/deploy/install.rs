// SPDX-License-Identifier: BSD-3-Clause
//! `deploy/install`: once into a staging folder, and once as an operator runs it, in a mount
//! namespace whose /etc, /usr/local, /var/lib and /run are copies or empty, with a stub
//! `systemctl` that only records its calls.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use braid_tests::server::is_braid;

use crate::{deploy, is_there, root, runs};

const PROGRAMS: [&str; 6] =
    ["braid-server", "braid-check-rdb", "braid-check-aof", "braid-top", "braid-cluster", "braid-bench"];

/// A folder with a script in place of each program that prints this version.
fn programs(version: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in PROGRAMS {
        script(&folder.path().join(name), &format!("#!/bin/sh\necho {name} {version}\n"));
    }
    folder
}

fn script(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a file");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("the mode is set");
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn files_are_staged_and_the_server_runs_from_them() {
    if !is_braid() {
        return;
    }
    let (source, staging) = (programs("1"), tempfile::tempdir().expect("a folder"));
    let staged = |path: &str| staging.path().join(path);
    let install = |arguments: &[&str]| {
        let output = Command::new(deploy("install"))
            .args(arguments)
            .env("PROGRAMS", source.path())
            .env("DESTDIR", staging.path())
            .output()
            .expect("it starts");
        assert!(output.status.success(), "{}", text(&output));
        text(&output)
    };
    let told = install(&[]);
    assert!(!told.contains("target/"), "{told}");
    for name in PROGRAMS {
        let output = Command::new(staged("usr/local/bin").join(name)).output().expect("it is installed");
        assert_eq!(text(&output), format!("{name} 1\n"));
    }
    assert!(staged("usr/local/share/doc/braid/operations.md").is_file());
    let unit = std::fs::read_to_string(staged("etc/systemd/system/braid.service")).expect("a unit");

    // The server accepts the installed configuration and the unit's arguments.
    let command = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    let port = braid_tests::server::free_port();
    let arguments = command
        .split(' ')
        .skip(1)
        .map(|word| word.strip_prefix('/').map_or_else(|| word.into(), |path| staged(path).into_os_string()));
    let mut child = Command::new(braid_tests::server::program_under_test())
        .args(arguments)
        .args(["--port", &port.to_string(), "--supervised", "no"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let is_up = || braid_tests::RawClient::tcp(([127, 0, 0, 1], port).into()).is_ok();
    let came_up = braid_tests::wait_for_within(braid_tests::wait::PATIENCE, is_up);
    let _ = child.kill();
    let _ = child.wait();
    assert!(came_up, "the server did not start with the installed files");

    // A second installation keeps the configuration.
    std::fs::write(staged("etc/braid/braid.conf"), "port 7000\n").expect("a file");
    install(&[]);
    assert_eq!(std::fs::read_to_string(staged("etc/braid/braid.conf")).expect("a file"), "port 7000\n");
    install(&["--uninstall"]);
    assert_eq!(std::fs::read_dir(staged("usr/local/bin")).expect("a folder").count(), 0);
    assert!(!staged("etc/systemd/system/braid.service").exists() && staged("etc/braid/braid.conf").is_file());
}

#[test]
fn a_program_that_is_not_built_and_bad_arguments_are_refused() {
    let (source, staging) = (programs("1"), tempfile::tempdir().expect("a folder"));
    std::fs::remove_file(source.path().join("braid-check-aof")).expect("the program exists");
    let run = |argument: &[&str]| {
        let mut command = Command::new(deploy("install"));
        command.args(argument).env("PROGRAMS", source.path()).env("DESTDIR", staging.path());
        command.output().expect("it starts")
    };
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("braid-check-aof is not built"), "{}", text(&output));
    assert_eq!(std::fs::read_dir(staging.path()).expect("a folder").count(), 0, "files were left over");
    let output = run(&["--yess"]);
    assert_eq!(output.status.code(), Some(2));
    let help = run(&["--help"]);
    assert!(help.status.success() && text(&help).contains("--uninstall"));
    assert_eq!(text(&output), text(&help));
}

/// Sets up the environment of [`an_operator_installs_upgrades_and_removes`]: copies and empty
/// folders mounted over those of this machine.
const SCENE: &str = r#"
set -eu
scene=$1; shift
mount --make-rprivate /
mkdir -p "$scene/etc" && cp -a /etc/. "$scene/etc/"
# As on a small system: no folder for the kernel's settings, and no sysctl.
rm -rf "$scene/etc/braid" "$scene/etc/systemd/system/braid.service" "$scene/etc/sysctl.d"
printf '#!/bin/sh\nexit 127\n' >"$scene/bin/sysctl"; chmod +x "$scene/bin/sysctl"
mount --bind "$scene/etc" /etc
for folder in /usr/local/bin /usr/local/share /var/lib /run; do mount -t tmpfs tmpfs "$folder"; done
mkdir -p /run/systemd/system
sed -i '/^braid:/d' /etc/passwd /etc/group /etc/shadow /etc/gshadow
echo 2 >"$scene/overcommit"; mount --bind "$scene/overcommit" /proc/sys/vm/overcommit_memory
export PATH="$scene/bin:$PATH"
exec "$@"
"#;

/// The operator's steps, with checks of their effects.
const STORY: &str = r#"
set -eu
scene=$1 install=$2
# Nobody can be asked: settings stay.
PROGRAMS=$scene/1 setsid "$install" </dev/null
test ! -e /etc/sysctl.d/60-braid.conf
braid-check-aof
stat -c '%U %a %n' /etc/braid /etc/braid/braid.conf /var/lib/braid
grep '^io-threads' /etc/braid/braid.conf >"$scene/threads"
echo 'port 7000' >/etc/braid/braid.conf
touch "$scene/active"
PROGRAMS=$scene/2 "$install" --yes
braid-server
cat /etc/braid/braid.conf /etc/sysctl.d/60-braid.conf "$scene/overcommit"
"$install" --uninstall
ls /usr/local/bin /usr/local/share/doc /etc/braid
test ! -e /etc/systemd/system/braid.service
"#;

#[test]
fn an_operator_installs_upgrades_and_removes() {
    let test = "an_operator_installs_upgrades_and_removes";
    let can = runs("unshare", &["--mount", "mount", "-t", "tmpfs", "tmpfs", "/run"]);
    if !is_there(test, "right to make a mount namespace (root)", can) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let scene = folder.path();
    let calls = scene.join("calls");
    std::fs::create_dir(scene.join("bin")).expect("a folder");
    let fake = format!(
        "#!/bin/sh\necho \"$*\" >>{calls}\ncase $1 in is-active) test -e {active} ;; esac\n",
        calls = calls.display(),
        active = scene.join("active").display()
    );
    script(&scene.join("bin/systemctl"), &fake);
    for version in ["1", "2"] {
        std::fs::create_dir(scene.join(version)).expect("a folder");
        for name in PROGRAMS {
            script(&scene.join(version).join(name), &format!("#!/bin/sh\necho {name} {version}\n"));
        }
    }
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", SCENE, "sh"])
        .arg(scene)
        .args(["sh", "-c", STORY, "sh"])
        .arg(scene)
        .arg(root().join("deploy/install"))
        .output()
        .expect("it starts");
    let told = text(&output);
    assert!(output.status.success(), "{told}");
    let expected = "\
The kernel may refuse memory although some is free; a server that is refused memory exits.
Installed. Start it with: systemctl enable --now braid
braid-check-aof 1
braid 750 /etc/braid
braid 640 /etc/braid/braid.conf
braid 750 /var/lib/braid
The kernel may refuse memory although some is free; a server that is refused memory exits.
Installed; the service has been restarted.
braid-server 2
port 7000
vm.overcommit_memory = 1
1
Removed. Left in place: /etc/braid, /var/lib/braid, the user braid and, if it exists, /etc/sysctl.d/60-braid.conf.
/etc/braid:
braid.conf

/usr/local/bin:

/usr/local/share/doc:
";
    assert_eq!(told, expected);
    assert!(std::fs::read_to_string(scene.join("threads")).is_ok_and(|line| line.starts_with("io-threads ")));
    let calls = std::fs::read_to_string(calls).expect("systemctl was called");
    let expected = "daemon-reload\nis-active --quiet braid\ndaemon-reload\n\
                    is-active --quiet braid\nrestart braid\ndisable --now braid\ndaemon-reload\n";
    assert_eq!(calls, expected);
}
