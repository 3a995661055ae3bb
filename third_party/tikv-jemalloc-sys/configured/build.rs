// SPDX-License-Identifier: BSD-3-Clause
// Braid: compiles jemalloc with the headers that `configure` has made for this target. That takes a
// third of the processor time of configure and make, which compile every file twice to find the
// private symbols. Included by `../build.rs`.

/// The file of names of settings and statistics, which alone took a fifth of the compiler's time. It is not
/// optimised at all unless everything is, as in what is shipped.
const NAMES: &str = "ctl";

/// Files whose code runs at startup, for statistics, for a profile, or in a thread of their own. They are
/// optimised less.
const RARELY_RUN: [&str; 17] = [
    "background_thread",
    "buf_writer",
    "ckh",
    "conf",
    "inspect",
    "log",
    "malloc_io",
    "peak_event",
    "prof",
    "prof_data",
    "prof_log",
    "prof_recent",
    "prof_stack_range",
    "prof_stats",
    "prof_sys",
    "stats",
    "test_hooks",
];

/// Lets GCC parse the headers that all files begin with, which takes it a third of the time of compiling
/// them. Returns the header to include first. None with other compilers, or if GCC cannot.
fn parse_headers(build: &cc::Build, out_dir: &Path) -> Option<PathBuf> {
    let compiler = build.get_compiler();
    if !compiler.is_like_gnu() {
        return None;
    }
    let header = out_dir.join("jemalloc_all.h");
    let includes = "#include \"jemalloc/internal/jemalloc_preamble.h\"\n\
                    #include \"jemalloc/internal/jemalloc_internal_includes.h\"\n";
    fs::write(&header, includes).ok()?;
    let mut command = compiler.to_command();
    command.args(["-x", "c-header"]).arg(&header).arg("-o").arg(header.with_extension("h.gch"));
    command.status().is_ok_and(|status| status.success()).then_some(header)
}

/// Builds the archive and prints the linkage directives. False if other settings are requested than
/// those of the checked-in headers, or if there are none for the target.
fn build_configured(target: &str, out_dir: &Path) -> bool {
    let headers = Path::new("configured").join(target);
    // Without a short cut, since each of them must be watched.
    let settings = ["WITH_MALLOC_CONF", "WITH_LG_PAGE", "WITH_LG_HUGEPAGE", "WITH_LG_QUANTUM", "WITH_LG_VADDR"]
        .map(|name| read_and_watch_env(&format!("JEMALLOC_SYS_{name}")));
    let is_usual = settings.iter().all(Result::is_err);
    let has = |feature: &str| env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    let other_features = [
        "BACKGROUND_THREADS",
        "DEBUG",
        "DISABLE_CACHE_OBLIVIOUS",
        "DISABLE_INITIAL_EXEC_TLS",
        "PROFILING",
        "UNPREFIXED_MALLOC_ON_SUPPORTED_PLATFORMS",
    ];
    let has_usual_features = has("STATS")
        && has("BACKGROUND_THREADS_RUNTIME_SUPPORT")
        && !other_features.iter().any(|feature| has(feature));
    let runs_tests = env::var_os("JEMALLOC_SYS_RUN_JEMALLOC_TESTS").is_some();
    if !is_usual || !has_usual_features || runs_tests || !headers.exists() {
        return false;
    }
    let mut sources: Vec<PathBuf> = fs::read_dir("jemalloc/src")
        .expect("jemalloc's sources are there")
        .map(|entry| entry.expect("the folder is readable").path())
        // The allocator of macOS.
        .filter(|path| path.extension().is_some_and(|is| is == "c") && !path.ends_with("zone.c"))
        .collect();
    sources.sort();
    let is = |path: &PathBuf, name: &str| path.file_stem().is_some_and(|stem| stem == name);
    let is_rare = |path: &PathBuf| RARELY_RUN.iter().any(|name| is(path, name));
    let (rare, other): (Vec<PathBuf>, Vec<PathBuf>) = sources.into_iter().partition(is_rare);
    let (names, usual): (Vec<PathBuf>, Vec<PathBuf>) = other.into_iter().partition(|path| is(path, NAMES));
    let level_of_names = if expect_env("OPT_LEVEL") == "3" { 1 } else { 0 };
    let mut build = cc::Build::new();
    build
        .include(&headers)
        .include("jemalloc/include")
        .std("gnu11")
        .flag("-fvisibility=hidden")
        .flag("-funroll-loops")
        .define("_GNU_SOURCE", None)
        .define("_REENTRANT", None)
        .opt_level(3)
        .debug(false)
        .pic(true)
        .warnings(false)
        .extra_warnings(false)
        .cargo_metadata(false)
        .out_dir(out_dir.join("lib"));
    let parsed = parse_headers(&build, out_dir);
    if let Some(header) = &parsed {
        build.flag("-include").flag(header);
    }
    let rare = build.clone().opt_level(1).files(rare).compile_intermediates();
    let names = build.clone().opt_level(level_of_names).files(names).compile_intermediates();
    build.files(usual).objects(rare).objects(names).compile("jemalloc_pic");
    if let Some(header) = parsed {
        // 24 MB that nothing needs any more.
        let _ = fs::remove_file(header.with_extension("h.gch"));
    }
    println!("cargo:rustc-link-lib=static=jemalloc_pic");
    println!("cargo:rustc-link-search=native={}/lib", out_dir.display());
    println!("cargo:rustc-link-arg=-pthread");
    println!("cargo:rerun-if-changed=jemalloc");
    println!("cargo:rerun-if-changed=configured");
    true
}
