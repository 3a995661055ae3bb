// SPDX-License-Identifier: BSD-3-Clause
//! The table of libraries and their functions.
//!
//! The table is immutable: a change makes a new table, and threads see one or the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use braid_rdb::{Bytes, Decoder, Encoder};
use hashbrown::HashMap;

use crate::flags::{ScriptFlags, parse_library};
use crate::register::{INVALID_NAME, is_valid_name};
use crate::speculation::SpeculationHistory;

/// A function, as listed by FUNCTION LIST.
pub struct FunctionInfo {
    pub name: String,
    pub description: Option<Vec<u8>>,
    pub flags: ScriptFlags,
    pub history: SpeculationHistory,
}

/// A library.
pub struct Library {
    /// Never reused.
    pub id: u64,
    pub name: String,
    /// The whole code, including the first line.
    pub code: Box<[u8]>,
    pub functions: Vec<FunctionInfo>,
}

impl Library {
    /// Creates a library with a unique id.
    pub fn new(name: String, code: &[u8], functions: Vec<FunctionInfo>) -> Library {
        static IDS: AtomicU64 = AtomicU64::new(0);
        Library { id: IDS.fetch_add(1, Ordering::Relaxed), name, code: code.into(), functions }
    }

    fn memory_bytes(&self) -> usize {
        let of = |function: &FunctionInfo| {
            size_of::<FunctionInfo>()
                + function.name.len()
                + function.description.as_ref().map_or(0, Vec::len)
        };
        size_of::<Library>()
            + self.name.len()
            + self.code.len()
            + self.functions.iter().map(of).sum::<usize>()
    }
}

/// Treatment of existing libraries by FUNCTION RESTORE.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    Flush,
    Append,
    Replace,
}

/// All libraries. Function names are case-insensitive.
#[derive(Clone, Default)]
pub struct Libraries {
    libraries: Vec<Arc<Library>>,
    functions: HashMap<Box<[u8]>, (Arc<Library>, usize), foldhash::fast::RandomState>,
}

/// The opcode of a library in a dump, and that of an unreleased format.
const FUNCTION: u8 = 245;
const FUNCTION_BEFORE_RELEASE: u8 = 246;
/// Length of version and checksum.
const TRAILER: usize = 10;

impl Libraries {
    pub fn all(&self) -> impl Iterator<Item = &Arc<Library>> {
        self.libraries.iter()
    }

    pub fn function(&self, name: &[u8]) -> Option<(Arc<Library>, usize)> {
        self.functions.get(&name.to_ascii_lowercase()[..]).cloned()
    }

    pub fn counts(&self) -> (usize, usize) {
        (self.libraries.len(), self.functions.len())
    }

    pub fn memory_bytes(&self) -> usize {
        self.libraries.iter().map(|library| library.memory_bytes()).sum()
    }

    fn named(&self, name: &[u8]) -> Option<&Arc<Library>> {
        self.libraries.iter().find(|library| library.name.as_bytes() == name)
    }

    /// Removes a library. False if there is none of that name.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let before = self.libraries.len();
        self.libraries.retain(|library| library.name.as_bytes() != name);
        self.functions.retain(|_, (library, _)| library.name.as_bytes() != name);
        self.libraries.len() < before
    }

    /// Adds a library that [`Libraries::prepare`] has checked.
    pub fn add(&mut self, library: Library) {
        self.add_shared(Arc::new(library));
    }

    fn add_shared(&mut self, library: Arc<Library>) {
        for (index, function) in library.functions.iter().enumerate() {
            let name = function.name.to_ascii_lowercase().into_bytes().into_boxed_slice();
            self.functions.insert(name, (Arc::clone(&library), index));
        }
        self.libraries.push(library);
    }

    /// Parses a library that is about to be added; with `replace`, removes the existing library
    /// of the same name. `read` runs its code.
    ///
    /// # Errors
    /// The text for the client, if the first line, the library's name or its engine is invalid, the
    /// library exists and is not to be replaced, `read` fails, no function is registered, or a
    /// function's name is taken. An existing library may be removed from this copy then.
    pub fn prepare(
        &mut self,
        code: &[u8],
        replace: bool,
        read: impl FnOnce(&[u8]) -> Result<Library, Vec<u8>>,
    ) -> Result<Library, Vec<u8>> {
        let head = parse_library(code)?;
        if !is_valid_name(&head.name) {
            return Err(INVALID_NAME.into());
        }
        if !head.engine.eq_ignore_ascii_case(b"lua") {
            return Err([b"Engine '", &head.engine[..], b"' not found"].concat());
        }
        if self.named(&head.name).is_some() && !replace {
            return Err([b"Library '", &head.name[..], b"' already exists"].concat());
        }
        self.remove(&head.name);
        let library = read(code)?;
        if library.functions.is_empty() {
            return Err(b"No functions registered".to_vec());
        }
        self.check_names(&library)?;
        Ok(library)
    }

    fn check_names(&self, library: &Library) -> Result<(), Vec<u8>> {
        match library.functions.iter().find(|function| self.function(function.name.as_bytes()).is_some()) {
            Some(function) => Err(format!("Function {} already exists", function.name).into_bytes()),
            None => Ok(()),
        }
    }

    /// All libraries as a payload: their dump-file records, with a version and a checksum.
    pub fn dump(&self) -> Vec<u8> {
        let mut encoder = Encoder::new(Vec::new(), true);
        for library in &self.libraries {
            let written = encoder.byte(FUNCTION).and_then(|()| encoder.string(&library.code));
            debug_assert!(written.is_ok(), "a write to memory cannot fail");
        }
        let mut payload = encoder.into_inner();
        braid_rdb::seal(&mut payload, braid_rdb::VERSION);
        payload
    }

    /// Adds the libraries of a payload.
    ///
    /// # Errors
    /// The text for the client, if the payload is damaged, a library is invalid, or its name or a
    /// function's is taken. `self` may be partly changed then.
    pub fn restore(
        &mut self,
        payload: &[u8],
        check: bool,
        policy: Policy,
        mut read: impl FnMut(&[u8]) -> Result<Library, Vec<u8>>,
    ) -> Result<(), Vec<u8>> {
        let mut decoder = braid_rdb::open(payload, check)
            .map_err(|_| b"DUMP payload version or checksum are wrong".to_vec())?;
        let mut restored = Libraries::default();
        let end = payload.len().saturating_sub(TRAILER) as u64;
        while let Some(code) = next_library(&mut decoder, end)? {
            let library = restored.prepare(&code, false, &mut read)?;
            restored.add(library);
        }
        if policy == Policy::Flush {
            *self = restored;
            return Ok(());
        }
        for library in &restored.libraries {
            if self.named(library.name.as_bytes()).is_some() {
                if policy == Policy::Append {
                    return Err(format!("Library {} already exists", library.name).into_bytes());
                }
                self.remove(library.name.as_bytes());
            }
        }
        for library in &restored.libraries {
            self.check_names(library)?;
        }
        restored.libraries.into_iter().for_each(|library| self.add_shared(library));
        Ok(())
    }
}

/// The name declared in a library's code.
///
/// # Errors
/// The code declares no name.
pub fn name_of(code: &[u8]) -> Result<Vec<u8>, Vec<u8>> {
    parse_library(code).map(|library| library.name)
}

/// The code of the libraries in a payload that was checked before.
///
/// # Errors
/// The payload is invalid.
pub fn codes_of(payload: &[u8]) -> Result<Vec<Box<[u8]>>, Vec<u8>> {
    let mut decoder = braid_rdb::open(payload, false)
        .map_err(|_| b"DUMP payload version or checksum are wrong".to_vec())?;
    let end = payload.len().saturating_sub(TRAILER) as u64;
    let mut codes = Vec::new();
    while let Some(code) = next_library(&mut decoder, end)? {
        codes.push(code.into());
    }
    Ok(codes)
}

/// The code of the next library of a payload; `None` at its end.
fn next_library(decoder: &mut Decoder<Bytes<'_>>, end: u64) -> Result<Option<Vec<u8>>, Vec<u8>> {
    if decoder.position() >= end {
        return Ok(None);
    }
    match decoder.byte() {
        Ok(FUNCTION) => {}
        Ok(FUNCTION_BEFORE_RELEASE) => return Err(b"Pre-GA function format not supported".to_vec()),
        Ok(_) => return Err(b"given type is not a function".to_vec()),
        Err(_) => return Err(b"can not read data type".to_vec()),
    }
    match decoder.string() {
        Ok(code) => Ok(Some(code.to_vec())),
        Err(_) => Err(b"Failed loading library payload".to_vec()),
    }
}
