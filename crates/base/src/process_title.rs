// SPDX-License-Identifier: BSD-3-Clause
//! Process title, as shown by `ps` and `/proc/PID/cmdline`, on Linux; no effect elsewhere.
//!
//! Linux shows the memory in which it passed the arguments and, if no NUL ends them, the
//! environment after them, so the title is written over both, once the environment has been copied
//! elsewhere. Thread names, shown by `top -H`, are independent of the title.
//!
//! The kernel reports the address of that memory (`/proc/self/stat`, proc(5)). Without the address
//! there is no [`TitleArea`].

use std::ffi::{CStr, c_char};

/// The memory to which the title is written.
#[derive(Debug)]
pub struct TitleArea {
    /// Address of the area. It belongs to neither Rust nor the allocator: it lies above the first
    /// thread's stack.
    start: *mut u8,
    len: usize,
}

// SAFETY: the memory belongs to the process as a whole, and only the one `TitleArea` uses it.
unsafe impl Send for TitleArea {}

impl TitleArea {
    /// Moves the environment elsewhere and takes over the memory of the arguments and the
    /// environment. `None` if its address is unknown.
    ///
    /// # Safety
    /// Call it once, while the process has one thread. After the first [`TitleArea::set`] the
    /// process's arguments (`std::env::args`) must not be read any more: they contain parts of the
    /// title.
    pub unsafe fn claim() -> Option<TitleArea> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let [args_start, args_end, environment_start, environment_end] = addresses(&stat)?;
        let joined = args_end == environment_start;
        let end = if joined && environment_end > args_end { environment_end } else { args_end };
        let len = end.checked_sub(args_start).filter(|&len| len >= 2 && args_start != 0)?;
        if end == environment_end {
            // SAFETY: one thread, as the caller promises.
            unsafe { move_environment(environment_start, environment_end) };
        }
        Some(TitleArea { start: std::ptr::with_exposed_provenance_mut(args_start), len })
    }

    /// Shows a title, truncated to the available room.
    pub fn set(&mut self, title: &[u8]) {
        let shown = &title[..title.len().min(self.len - 1)];
        // SAFETY: the kernel's own memory for arguments: `len` bytes, mapped and writable for the
        // whole life of the process, and not read within the process (`claim`). The last byte
        // stays NUL, so every string that begins in the area ends in it.
        unsafe {
            std::ptr::copy_nonoverlapping(shown.as_ptr(), self.start, shown.len());
            self.start.add(shown.len()).write_bytes(0, self.len - shown.len());
        }
    }
}

/// Start and end of the arguments and of the environment: fields 48 to 51 of `/proc/PID/stat`.
/// They are 0 without permission to read them.
fn addresses(stat: &str) -> Option<[usize; 4]> {
    // The name in parentheses, field 2, may contain blanks.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(48 - 3);
    let mut next = || fields.next()?.parse::<usize>().ok();
    Some([next()?, next()?, next()?, next()?])
}

/// Moves the environment's entries within these addresses to copies, which are never freed.
///
/// # Safety
/// No other thread may exist: it could be reading the environment.
unsafe fn move_environment(start: usize, end: usize) {
    unsafe extern "C" {
        /// The C library's list of entries; ends with a null pointer (environ(7)).
        static mut environ: *mut *mut c_char;
    }
    // SAFETY: no other code reads or changes the list meanwhile; entries are NUL-terminated
    // strings, like all entries made by the standard library and the C library.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            if (start..end).contains(&(*at).expose_provenance()) {
                *at = CStr::from_ptr(*at).to_owned().into_raw();
            }
            at = at.add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_behind_any_name() {
        let numbers: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        let stat = format!("17 (a ) b) {}\n", numbers.join(" "));
        assert_eq!(addresses(&stat), Some([48, 49, 50, 51]));
        assert_eq!(addresses("17 (braid-server) S 1 2 3"), None);
        assert_eq!(addresses(""), None);
    }

    #[test]
    fn title_is_truncated_and_fully_overwrites_the_previous_one() {
        let mut memory = *b"--one\0--two\0X=1\0";
        let mut area = TitleArea { start: memory.as_mut_ptr(), len: memory.len() };
        area.set(b"a title that is too long");
        area.set(b"a title that is as long");
        area.set(b"short");
        assert_eq!(&memory, b"short\0\0\0\0\0\0\0\0\0\0\0");
        let mut area = TitleArea { start: memory.as_mut_ptr(), len: memory.len() };
        area.set(b"a title that is too long");
        assert_eq!(&memory, b"a title that is\0");
    }
}
