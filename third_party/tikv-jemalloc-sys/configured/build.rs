// SPDX-License-Identifier: BSD-3-Clause
// Braid: compiles jemalloc with the headers that `configure` has made for this target. That takes a
// third of the processor time of configure and make, which compile every file twice to find the
// private symbols. Included by `../build.rs`.

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
    cc::Build::new()
        .files(sources)
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
        .out_dir(out_dir.join("lib"))
        .compile("jemalloc_pic");
    println!("cargo:rustc-link-lib=static=jemalloc_pic");
    println!("cargo:rustc-link-search=native={}/lib", out_dir.display());
    println!("cargo:rustc-link-arg=-pthread");
    println!("cargo:rerun-if-changed=jemalloc");
    println!("cargo:rerun-if-changed=configured");
    true
}
