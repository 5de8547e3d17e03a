//! Text that may hold a password.

/// Text that must never reach an output. `Debug` and `Display` show nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps it.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, for the one call that needs it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Another text without what is secret of this connection string.
    #[must_use]
    pub fn hidden_in(&self, text: &str) -> String {
        hide_credentials(text, &self.0)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[hidden]")
    }
}

impl std::fmt::Display for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[hidden]")
    }
}

/// The URI without user and password.
#[must_use]
pub fn without_credentials(uri: &str) -> String {
    match (uri.split_once("://"), uri.rfind('@')) {
        (Some((scheme, _)), Some(at)) => format!("{scheme}://{}", &uri[at + 1..]),
        _ => uri.to_owned(),
    }
}

/// Removes user and password of the URI from a text.
#[must_use]
pub fn hide_credentials(text: &str, uri: &str) -> String {
    let user_info = uri.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')).map(|(info, _)| info);
    let mut text = text.replace(uri, "[uri]");
    for secret in user_info.into_iter().flat_map(|info| info.splitn(2, ':').chain([info])) {
        if !secret.is_empty() {
            text = text.replace(secret, "[hidden]");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_the_credentials_is_left_in_a_text() {
        let uri = "mongodb://app:p%40ss@127.0.0.1:1/x";
        let text = hide_credentials(&format!("cannot parse {uri}: user app, password p%40ss"), uri);
        assert_eq!(text, "cannot parse [uri]: user [hidden], password [hidden]");
    }
}
