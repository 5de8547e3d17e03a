//! The table of contents: arguments, signals, one call, exit code.

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;
use mongosoak::cli::{self, Arguments};
use mongosoak::exit::Outcome;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("mongosoak: start the runtime: {error}");
            return Outcome::Error.into();
        }
    };
    runtime.block_on(cli::run(arguments)).into()
}
