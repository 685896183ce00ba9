//! Fetches what the program is built with by npm: DuckDB's library, and the tools that make the page.
//!
//! npm installs into a folder outside the clone, once for each content of `package-lock.json`; after that, nothing is fetched. The library
//! is laid beside the program, which looks for it there.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

const LIBRARY: &str = "libduckdb.so";

fn main() {
    for file in ["build.rs", "package.json", "package-lock.json", "page"] {
        println!("cargo:rerun-if-changed={file}");
    }
    let modules = modules();
    let library = modules.join("@duckdb/node-bindings-linux-x64").join(LIBRARY);
    println!("cargo:rustc-link-search=native={}", library.parent().expect("a folder").display());
    // Programs find it beside them, tests one folder above.
    println!("cargo:rustc-link-arg=-Wl,-rpath,$ORIGIN:$ORIGIN/..");
    println!("cargo:rustc-env=VIEW_NODE_MODULES={}", modules.display());
    lay_beside_programs(&library);
    bundle(&modules);
}

/// Makes one script and one style sheet of the page's sources.
fn bundle(modules: &Path) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let mut esbuild = Command::new(modules.join("@esbuild/linux-x64/bin/esbuild"));
    esbuild.args([
        "page/page.ts",
        "page/page.css",
        "--bundle",
        "--minify",
        "--target=es2022",
        "--charset=utf8",
        "--log-level=warning",
    ]);
    match esbuild.arg(format!("--outdir={}", out.display())).status() {
        Ok(status) if status.success() => {}
        Ok(_) => give_up("esbuild could not make the page of crates/view/page"),
        Err(error) => {
            give_up(&format!("cannot start {}: {error}", modules.join("@esbuild/linux-x64/bin/esbuild").display()))
        }
    }
}

/// Where what npm installed lies.
fn modules() -> PathBuf {
    let folder = cache().join(format!("npm-{:016x}", lock_hash()));
    let modules = folder.join("node_modules");
    if !modules.is_dir() {
        install(&folder);
    }
    modules
}

/// As the Makefile has it.
fn cache() -> PathBuf {
    println!("cargo:rerun-if-env-changed=GNOMON_CACHE");
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || variable("HOME").map(|home| home.join(".cache/gnomon"));
    let given = variable("GNOMON_CACHE").or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("gnomon")));
    given.or_else(home).unwrap_or_else(|| PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")))
}

fn lock_hash() -> u64 {
    let mut hasher = DefaultHasher::new();
    fs::read("package-lock.json").expect("a lock file").hash(&mut hasher);
    hasher.finish()
}

/// Installs into a folder beside `folder`, which appears when all is there: another build may do the same meanwhile.
fn install(folder: &Path) {
    let draft = folder.with_extension(format!("draft-{}", std::process::id()));
    let made = fs::create_dir_all(&draft)
        .and_then(|()| fs::copy("package.json", draft.join("package.json")))
        .and_then(|_| fs::copy("package-lock.json", draft.join("package-lock.json")));
    if let Err(error) = made {
        give_up(&format!("cannot make the folder {}: {error}", draft.display()));
    }
    let words = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    match Command::new("npm").args(words).current_dir(&draft).status() {
        Ok(status) if status.success() => {}
        Ok(status) => give_up(&format!(
            "'npm ci' failed ({status}) in {}: the first build needs the npm registry, later ones need no network",
            draft.display()
        )),
        Err(error) => give_up(&format!(
            "cannot start npm ({error}): install it ('apt-get install npm', or with your own Node.js), or leave this program \
             out by building with 'cargo build --release -p gnomon'"
        )),
    }
    if fs::rename(&draft, folder).is_err() {
        let _ = fs::remove_dir_all(&draft);
        if !folder.is_dir() {
            give_up(&format!("cannot make the folder {}", folder.display()));
        }
    }
}

/// Links the library into the folder that cargo puts programs in: the third above `OUT_DIR`.
fn lay_beside_programs(library: &Path) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let place = out.ancestors().nth(3).expect("a folder of programs").join(LIBRARY);
    if fs::read_link(&place).is_ok_and(|target| target == library) {
        return;
    }
    let _ = fs::remove_file(&place);
    if let Err(error) = std::os::unix::fs::symlink(library, &place) {
        give_up(&format!("cannot link {} to {}: {error}", library.display(), place.display()));
    }
}

fn give_up(text: &str) -> ! {
    eprintln!("gnomon-view: {text}");
    exit(1)
}
