//! A router by hand: `cargo run -p router --example router -- LISTEN RTR CONFIG[,CONFIG...] [CURSOR_TIMEOUT_S]`.

use std::time::Duration;

use router::Options;
use tokio_util::sync::CancellationToken;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (listen, upstream, config, seconds) = match &arguments[..] {
        [listen, upstream, config] => (listen, upstream, config, "60"),
        [listen, upstream, config, seconds] => (listen, upstream, config, seconds.as_str()),
        _ => return Err("needs LISTEN RTR CONFIG[,CONFIG...] [CURSOR_TIMEOUT_S]".into()),
    };
    let options = Options {
        listen: listen.parse()?,
        upstream: upstream.clone(),
        config: config.split(',').map(str::to_owned).collect(),
        cursor_timeout: Duration::from_secs(seconds.parse()?),
        ..Options::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(router::serve(options, CancellationToken::new()))?;
    Ok(())
}
