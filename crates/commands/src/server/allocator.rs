// SPDX-License-Identifier: BSD-3-Clause
//! Allocator statistics, release of unused pages, and tuning values by name.
//!
//! The `unsafe` here is jemalloc's control function, which compares the given number of bytes with
//! the named value's size before it reads or writes, so a wrong size is an error, never an
//! overrun. Names of pointer values are only used by [`mallctl_text`].

use std::ffi::{CStr, CString, c_char};

use tikv_jemalloc_ctl::{epoch, stats, stats_print};
use tikv_jemalloc_sys::mallctl;

/// The allocator's statistics, in bytes.
#[derive(Clone, Copy, Default, Debug)]
pub struct Figures {
    /// Bytes allocated.
    pub allocated: usize,
    /// Bytes in pages with at least one allocation.
    pub active: usize,
    /// Bytes in physical memory.
    pub resident: usize,
    /// Bytes in unused pages that the system may reclaim, but may not have reclaimed yet.
    pub muzzy: usize,
}

/// Reads the statistics; takes several microseconds.
pub fn figures() -> Figures {
    // Stale figures are better than an error: they are only for reports.
    let _ = epoch::advance();
    let read = |value: Result<usize, _>| value.unwrap_or(0);
    Figures {
        allocated: read(stats::allocated::read()),
        active: read(stats::active::read()),
        resident: read(stats::resident::read()),
        // 4096 means all arenas.
        muzzy: size(b"stats.arenas.4096.pmuzzy") * size(b"arenas.page"),
    }
}

/// One of the allocator's sizes by name; 0 if the name is unknown.
fn size(name: &[u8]) -> usize {
    match mallctl_integer(name, None) {
        Tuned::Was(value) => usize::try_from(value).unwrap_or(0),
        _ => 0,
    }
}

/// Name and version as shown by INFO.
pub fn name() -> String {
    let version = tikv_jemalloc_ctl::version::read().unwrap_or("unknown");
    format!("jemalloc-{}", version.split('-').next().unwrap_or(version))
}

/// The allocator's own report.
pub fn report() -> Vec<u8> {
    let mut text = Vec::new();
    // Writing to a Vec cannot fail.
    let _ = stats_print::stats_print(&mut text, stats_print::Options::default());
    text
}

/// Returns unused pages to the system. False if the allocator refused.
pub fn purge() -> bool {
    // 4096 means all arenas.
    let name = c"arena.4096.purge";
    // SAFETY: the command has no input and no output.
    unsafe {
        mallctl(name.as_ptr(), std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut(), 0) == 0
    }
}

/// Enables or disables the allocator's background thread, which returns memory to the system.
/// False if the allocator refused.
pub fn set_background_thread(is_on: bool) -> bool {
    matches!(mallctl_integer(b"background_thread", Some(is_on.into())), Tuned::Was(_) | Tuned::Set)
}

/// Distance between the smallest size classes, in bytes. The build requests [`SPACING`]; memory
/// accounting in `base::alloc` relies on it.
pub fn size_class_spacing() -> Option<i64> {
    match mallctl_integer(b"arenas.quantum", None) {
        Tuned::Was(bytes) => Some(bytes),
        _ => None,
    }
}

/// The spacing that `third_party/tikv-jemalloc-sys` is configured for, in bytes.
pub const SPACING: i64 = 8;

/// The result of reading or setting a tuning value.
#[derive(Debug, PartialEq, Eq)]
pub enum Tuned<T> {
    /// The previous value.
    Was(T),
    /// The value was set; it cannot be read.
    Set,
    /// The system's error number.
    Error(i32),
}

/// Reads an integer or switch of the allocator by name, and sets it if `new` is given.
pub fn mallctl_integer(name: &[u8], new: Option<i64>) -> Tuned<i64> {
    if new.is_some() && takes_address(name) {
        return Tuned::Error(libc::EPERM);
    }
    let Ok(name) = CString::new(name) else { return Tuned::Error(libc::ENOENT) };
    // The size is part of the value's type, which only the allocator knows: try them all.
    for size in [8usize, 4, 2, 1] {
        let mut old = 0i64.to_ne_bytes();
        let mut old_len = size;
        let mut value = new.unwrap_or(0).to_le_bytes();
        let (value_at, value_len) =
            if new.is_some() { (value.as_mut_ptr(), size) } else { (std::ptr::null_mut(), 0) };
        // SAFETY: both buffers hold 8 bytes, and the lengths are at most that.
        let error = unsafe {
            mallctl(name.as_ptr(), old.as_mut_ptr().cast(), &mut old_len, value_at.cast(), value_len)
        };
        match error {
            0 => return Tuned::Was(i64::from_le_bytes(old)),
            libc::EPERM if new.is_some() => {
                // SAFETY: as above; nothing is read.
                let error = unsafe {
                    mallctl(
                        name.as_ptr(),
                        std::ptr::null_mut(),
                        std::ptr::null_mut(),
                        value_at.cast(),
                        value_len,
                    )
                };
                if error == 0 {
                    return Tuned::Set;
                }
                if error != libc::EINVAL {
                    return Tuned::Error(error);
                }
            }
            libc::EINVAL => {}
            error => return Tuned::Error(error),
        }
    }
    Tuned::Error(libc::EINVAL)
}

/// Starts an action of the allocator by name, such as `thread.tcache.flush`. For a value that can
/// be read this does nothing.
pub fn mallctl_void(name: &[u8]) -> Tuned<String> {
    // These free all blocks of an arena.
    let frees = name.starts_with(b"arena.") && (name.ends_with(b".reset") || name.ends_with(b".destroy"));
    if frees || takes_address(name) {
        return Tuned::Error(libc::EPERM);
    }
    let Ok(name) = CString::new(name) else { return Tuned::Error(libc::ENOENT) };
    let nothing = std::ptr::null_mut;
    // SAFETY: nothing is read or written here.
    match unsafe { mallctl(name.as_ptr(), nothing(), nothing().cast(), nothing(), 0) } {
        0 => Tuned::Set,
        error => Tuned::Error(error),
    }
}

/// True for values that are addresses: setting one to a number would make the allocator use that
/// number as an address.
fn takes_address(name: &[u8]) -> bool {
    let holds = |word: &[u8]| name.windows(word.len()).any(|part| part == word);
    is_text(name) || holds(b"hooks") || holds(b"prof") || holds(b"batch") || name.ends_with(b"name")
}

/// True for text values; reading any other value as text would take a number for an address.
fn is_text(name: &[u8]) -> bool {
    let names: [&[u8]; 9] = [
        b"version",
        b"config.malloc_conf",
        b"opt.metadata_thp",
        b"opt.dss",
        b"opt.percpu_arena",
        b"opt.thp",
        b"opt.stats_print_opts",
        b"opt.stats_interval_opts",
        b"opt.zero_realloc",
    ];
    let arena_dss = name.starts_with(b"arena.") && name.ends_with(b".dss");
    names.contains(&name) || name == b"thread.prof.name" || name == b"opt.prof_prefix" || arena_dss
}

/// Reads a text of the allocator by name. Texts cannot be set: the allocator would keep the
/// argument's address.
pub fn mallctl_text(name: &[u8]) -> Tuned<String> {
    let Ok(c_name) = CString::new(name) else { return Tuned::Error(libc::ENOENT) };
    if !is_text(name) {
        // Distinguishes an unknown name from a value of another type.
        return match mallctl_integer(name, None) {
            Tuned::Error(libc::ENOENT) => Tuned::Error(libc::ENOENT),
            _ => Tuned::Error(libc::EINVAL),
        };
    }
    let mut text: *const c_char = std::ptr::null();
    let mut len = size_of::<*const c_char>();
    // SAFETY: the buffer is one pointer, and the length says so.
    let error =
        unsafe { mallctl(c_name.as_ptr(), (&raw mut text).cast(), &mut len, std::ptr::null_mut(), 0) };
    if error != 0 {
        return Tuned::Error(error);
    }
    if text.is_null() {
        return Tuned::Was(String::new());
    }
    // SAFETY: the allocator's texts are NUL-terminated and live as long as the process.
    Tuned::Was(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_plausible_and_pages_can_be_released() {
        let figures = figures();
        assert!(figures.active >= figures.allocated && figures.resident >= figures.active);
        assert!(purge());
        assert!(name().starts_with("jemalloc-5."));
        assert!(report().starts_with(b"___ Begin jemalloc statistics ___"));
    }

    /// With jemalloc's default spacing a key takes an eighth more memory, which no other test
    /// shows.
    #[test]
    fn size_classes_are_eight_bytes_apart() {
        assert_eq!(size_class_spacing(), Some(SPACING));
    }

    #[test]
    fn tuning_values_of_every_size() {
        // bool, unsigned, size_t.
        assert!(matches!(mallctl_integer(b"opt.abort", None), Tuned::Was(0 | 1)));
        assert!(matches!(mallctl_integer(b"arenas.narenas", None), Tuned::Was(1..)));
        assert!(matches!(mallctl_integer(b"arenas.page", None), Tuned::Was(4096..)));
        assert_eq!(mallctl_integer(b"no.such.thing", None), Tuned::Error(libc::ENOENT));
        assert_eq!(mallctl_integer(b"with\0zero", None), Tuned::Error(libc::ENOENT));
        assert_eq!(mallctl_integer(b"arena.0.extent_hooks", Some(1)), Tuned::Error(libc::EPERM));
        assert_eq!(mallctl_integer(b"prof.dump", Some(1)), Tuned::Error(libc::EPERM));
        assert!(matches!(mallctl_text(b"version"), Tuned::Was(version) if version.starts_with("5.")));
        assert_eq!(mallctl_text(b"arenas.page"), Tuned::Error(libc::EINVAL));
        assert_eq!(mallctl_void(b"thread.tcache.flush"), Tuned::Set);
        assert_eq!(mallctl_void(b"no.such.thing"), Tuned::Error(libc::ENOENT));
        assert_eq!(mallctl_void(b"arena.0.reset"), Tuned::Error(libc::EPERM));
        assert_eq!(mallctl_void(b"arena.0.extent_hooks"), Tuned::Error(libc::EPERM));
    }
}
