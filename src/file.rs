//! Small files that are replaced as a whole.

use std::io;
use std::path::Path;

/// Replaces a file: readers see the old one or the new one, never a part.
///
/// # Errors
/// When it cannot be written, with its path.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("tmp");
    let written = std::fs::write(&fresh, text).and_then(|()| std::fs::rename(&fresh, path));
    written.map_err(|e| io::Error::new(e.kind(), format!("write {}: {e}", path.display())))
}
