//! Compiles the clock library for servers. It is C: it stands between a program and its C library. Without a C
//! compiler the crate builds all the same, and `clock_skew` says what is missing.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = "src/resource/clock.c";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-env-changed=CC");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("clock.so");
    if !compile(&out) {
        std::fs::write(&out, b"").expect("the folder for output can be written");
    }
}

/// Servers run on this very machine and are linked to its C library, whatever this crate is linked to.
fn compile(out: &PathBuf) -> bool {
    let arch = |triple: &str| env::var(triple).ok().and_then(|t| t.split('-').next().map(str::to_owned));
    let linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    if !linux || arch("HOST") != arch("TARGET") {
        return false;
    }
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    let status = Command::new(compiler)
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-o"])
        .arg(out)
        .args([SOURCE, "-ldl"])
        .status();
    status.is_ok_and(|status| status.success())
}
