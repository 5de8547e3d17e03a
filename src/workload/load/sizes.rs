//! How large the collection is.

use bson::{Document, doc};
use mongodb::Client;

use crate::outcome;
use crate::scenario::Dataset;

/// Sizes as the server gives them; `None`: it did not say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    /// `collStats.storageSize`, in bytes.
    pub storage_bytes: Option<u64>,
    /// `collStats.size`, in bytes.
    pub data_bytes: Option<u64>,
    /// `collStats.totalIndexSize`, in bytes.
    pub index_bytes: Option<u64>,
}

/// Asks for the sizes; `flush` makes a checkpoint first, before which the server knows only the past.
pub async fn sizes(client: &Client, dataset: &Dataset, flush: bool) -> Sizes {
    if flush && let Err(error) = client.database("admin").run_command(doc! { "fsync": 1 }).await {
        tracing::info!(error = outcome::text(&error), "no checkpoint after the load");
    }
    let command = doc! { "collStats": &dataset.collection };
    let stats = client.database(&dataset.database).run_command(command).await.unwrap_or_default();
    Sizes {
        storage_bytes: number(&stats, "storageSize"),
        data_bytes: number(&stats, "size"),
        index_bytes: number(&stats, "totalIndexSize"),
    }
}

fn number(stats: &Document, name: &str) -> Option<u64> {
    let value = stats.get(name)?;
    let signed = value.as_i64().or_else(|| value.as_i32().map(i64::from));
    let float = || value.as_f64().map(|f| f as i64);
    signed.or_else(float).and_then(|n| u64::try_from(n).ok())
}
