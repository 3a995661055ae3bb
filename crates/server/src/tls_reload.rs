// SPDX-License-Identifier: BSD-3-Clause
//! Reloads the certificates of TLS listeners when their files have changed
//! (`tls-auto-reload-interval`).
//!
//! One thread, started when the directive is first set, compares the files' metadata and reads only
//! changed files. If they cannot be used, for example because the key has not been replaced yet,
//! the former certificates stay in use until the next check.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::Thread;
use std::time::Duration;

use braid_config::Config;
use braid_process::tls;
use braid_threading::accept::Listeners;
use parking_lot::Mutex;

/// What identifies a file's content: device, inode, size, and modification time in seconds and
/// nanoseconds. `None` if the file does not exist.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// Starts to follow the files, and the directive.
pub fn follow(config: &Arc<Config>, listeners: &Arc<Listeners>) -> Result<(), String> {
    let (thread, weak, listeners) =
        (Mutex::new(None::<Thread>), Arc::downgrade(config), Arc::clone(listeners));
    let wake = move |config: &Config| {
        let mut thread = thread.lock();
        if let Some(thread) = &*thread {
            thread.unpark();
        } else if config.tls_auto_reload_interval_seconds() > 0
            && let Some(config) = weak.upgrade()
        {
            let (listeners, files) = (Arc::clone(&listeners), files(&config));
            let run = move || watch(&config, &listeners, files);
            let watching = std::thread::Builder::new().name("tls-reload".into()).spawn(run);
            *thread = Some(watching.map_err(|error| error.to_string())?.thread().clone());
        }
        Ok(())
    };
    wake(config)?;
    config.on_change(&["tls-auto-reload-interval"], wake);
    Ok(())
}

fn watch(config: &Config, listeners: &Listeners, mut known: Vec<(PathBuf, Stamp)>) {
    loop {
        match config.tls_auto_reload_interval_seconds() {
            0 => std::thread::park(),
            seconds => std::thread::park_timeout(Duration::from_secs(seconds.into())),
        }
        let now = files(config);
        if now == known || config.tls_port() == 0 || config.tls_auto_reload_interval_seconds() == 0 {
            continue;
        }
        match tls::settings(config).server_config() {
            Ok(settings) => {
                listeners.set_tls(Some(settings));
                known = now;
                log::info!("TLS certificates reloaded: their files have changed");
            }
            Err(error) => log::warn!("Changed TLS certificates cannot be used yet: {error}"),
        }
    }
}

/// The files of the listeners' certificates.
fn files(config: &Config) -> Vec<(PathBuf, Stamp)> {
    let files = [
        config.tls_cert_file(),
        config.tls_key_file(),
        config.tls_alt_cert_file(),
        config.tls_alt_key_file(),
        config.tls_ca_cert_file(),
    ];
    let mut paths: Vec<PathBuf> = files.iter().map(|path| PathBuf::from(&**path)).collect();
    if let Ok(folder) = std::fs::read_dir(&*config.tls_ca_cert_dir()) {
        paths.extend(folder.flatten().map(|entry| entry.path()));
    }
    paths.sort_unstable();
    paths.into_iter().map(|path| (path.clone(), stamp(&path))).collect()
}

fn stamp(path: &Path) -> Stamp {
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
}
