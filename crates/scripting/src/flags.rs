// SPDX-License-Identifier: BSD-3-Clause
//! Script flags, and the first line of a script, which declares them.

/// Flags of a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScriptFlags(u8);

impl ScriptFlags {
    pub const NONE: ScriptFlags = ScriptFlags(0);
    pub const NO_WRITES: ScriptFlags = ScriptFlags(1);
    pub const ALLOW_OOM: ScriptFlags = ScriptFlags(2);
    pub const ALLOW_STALE: ScriptFlags = ScriptFlags(4);
    pub const NO_CLUSTER: ScriptFlags = ScriptFlags(8);
    pub const ALLOW_CROSS_SLOT_KEYS: ScriptFlags = ScriptFlags(16);
    /// The script has no line of flags, like scripts from before flags existed.
    pub const UNDECLARED: ScriptFlags = ScriptFlags(32);

    const NAMES: [(ScriptFlags, &'static str); 5] = [
        (ScriptFlags::NO_WRITES, "no-writes"),
        (ScriptFlags::ALLOW_OOM, "allow-oom"),
        (ScriptFlags::ALLOW_STALE, "allow-stale"),
        (ScriptFlags::NO_CLUSTER, "no-cluster"),
        (ScriptFlags::ALLOW_CROSS_SLOT_KEYS, "allow-cross-slot-keys"),
    ];

    /// The union of both.
    pub const fn with(self, other: ScriptFlags) -> ScriptFlags {
        ScriptFlags(self.0 | other.0)
    }

    /// True if all of `other` is set.
    pub const fn has(self, other: ScriptFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// A flag by its name.
    pub fn named(name: &[u8], any_case: bool) -> Option<ScriptFlags> {
        let same = |known: &str| {
            if any_case { name.eq_ignore_ascii_case(known.as_bytes()) } else { name == known.as_bytes() }
        };
        Self::NAMES.iter().find(|(_, known)| same(known)).map(|(flag, _)| *flag)
    }

    /// The names of the flags that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        Self::NAMES.iter().filter(move |(flag, _)| self.has(*flag)).map(|(_, name)| *name)
    }
}

/// The flags declared by a script's first line, and the length of that line without its line end;
/// without such a line [`ScriptFlags::UNDECLARED`] and 0.
///
/// # Errors
/// The text for the client, if the line is malformed or names another engine, an unknown option or
/// an unknown flag.
pub fn parse_shebang(script: &[u8]) -> Result<(ScriptFlags, usize), Vec<u8>> {
    let Some((line, words)) = first_line(script).map_err(|()| b"Invalid script shebang".to_vec())? else {
        return Ok((ScriptFlags::UNDECLARED, 0));
    };
    let Some((engine, options)) = words.as_deref().and_then(<[Vec<u8>]>::split_first) else {
        return Err(b"Invalid engine in script shebang".to_vec());
    };
    if engine != b"#!lua" {
        return Err([b"Unexpected engine in script shebang: ", &engine[..]].concat());
    }
    let mut flags = ScriptFlags::NONE;
    for option in options {
        let Some(list) = option.strip_prefix(b"flags=") else {
            return Err([b"Unknown lua shebang option: ", &option[..]].concat());
        };
        for name in list.split(|&byte| byte == b',').filter(|_| !list.is_empty()) {
            match ScriptFlags::named(name, false) {
                Some(flag) => flags = flags.with(flag),
                None => return Err([b"Unexpected flag in script shebang: ", name].concat()),
            }
        }
    }
    Ok((flags, line))
}

/// Content of a library's first line.
pub struct Library<'a> {
    pub engine: Vec<u8>,
    pub name: Vec<u8>,
    /// The code, from the end of the first line on.
    pub code: &'a [u8],
}

/// Parses a library's first line.
///
/// # Errors
/// The text for the client, if there is no such line, or it is malformed, has an unknown option, or
/// no name or several.
pub fn parse_library(library: &[u8]) -> Result<Library<'_>, Vec<u8>> {
    let (line, words) = match first_line(library) {
        Ok(Some(found)) => found,
        Ok(None) => return Err(b"Missing library metadata".to_vec()),
        Err(()) => return Err(b"Invalid library metadata".to_vec()),
    };
    let Some((engine, options)) = words.as_deref().and_then(<[Vec<u8>]>::split_first) else {
        return Err(b"Invalid library metadata".to_vec());
    };
    let mut name = None;
    for option in options {
        match option.split_at_checked(5) {
            Some((key, value)) if key.eq_ignore_ascii_case(b"name=") => {
                if name.replace(value.to_vec()).is_some() {
                    return Err(b"Invalid metadata value, name argument was given multiple times".to_vec());
                }
            }
            _ => return Err([b"Invalid metadata value given: ", &option[..]].concat()),
        }
    }
    let Some(name) = name else { return Err(b"Library name was not given".to_vec()) };
    Ok(Library { engine: engine[2..].to_vec(), name, code: &library[line..] })
}

/// The length of a first line that begins with `#!`, and its words (`None` if its quotes are
/// unbalanced); `None` if there is no such line; an error if the line is unterminated.
#[expect(clippy::type_complexity, reason = "used here only")]
fn first_line(script: &[u8]) -> Result<Option<(usize, Option<Vec<Vec<u8>>>)>, ()> {
    if !script.starts_with(b"#!") {
        return Ok(None);
    }
    let end = script.iter().position(|&byte| byte == b'\n').ok_or(())?;
    Ok(Some((end, braid_resp::inline::split_words(&script[..end]).ok())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(script: &str) -> String {
        String::from_utf8(parse_shebang(script.as_bytes()).expect_err(script)).expect("text")
    }

    #[test]
    fn first_lines_of_scripts() {
        assert_eq!(parse_shebang(b"return 1"), Ok((ScriptFlags::UNDECLARED, 0)));
        assert_eq!(parse_shebang(b"#!lua\nreturn 1"), Ok((ScriptFlags::NONE, 5)));
        assert_eq!(parse_shebang(b"#!lua flags=\n"), Ok((ScriptFlags::NONE, 12)));
        let both = ScriptFlags::NO_WRITES.with(ScriptFlags::ALLOW_STALE);
        assert_eq!(parse_shebang(b"#!lua flags=no-writes,allow-stale\n"), Ok((both, 33)));
        assert_eq!(refused("#!lua"), "Invalid script shebang");
        assert_eq!(refused("#!not-lua\n"), "Unexpected engine in script shebang: #!not-lua");
        assert_eq!(refused("#!lua badger=data\n"), "Unknown lua shebang option: badger=data");
        assert_eq!(refused("#!lua flags=allow-oom,what?\n"), "Unexpected flag in script shebang: what?");
    }

    #[test]
    fn first_lines_of_libraries() {
        let library = parse_library(b"#!lua name=l\ncode").map_err(drop).expect("valid");
        assert_eq!(
            (&library.engine[..], &library.name[..], library.code),
            (&b"lua"[..], &b"l"[..], &b"\ncode"[..])
        );
        let refused =
            |text: &str| String::from_utf8(parse_library(text.as_bytes()).err().expect(text)).expect("text");
        assert_eq!(refused("code"), "Missing library metadata");
        assert_eq!(refused("#!lua name=x"), "Invalid library metadata");
        assert_eq!(refused("#!lua\n"), "Library name was not given");
        assert_eq!(refused("#!lua foo=1\n"), "Invalid metadata value given: foo=1");
        assert_eq!(
            refused("#!lua name=a name=b\n"),
            "Invalid metadata value, name argument was given multiple times"
        );
    }
}
