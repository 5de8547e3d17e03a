//! A BSON document of fixed layout: built once, then copied and filled in.
//!
//! A document in which every value has the same length each time is one copy of the prepared bytes and a
//! few writes at known offsets, without a map or an allocation per field.

use std::ops::Range;

use super::random::SplitMix64;
use super::tree::{Node, Part};
use super::value::Value;

/// A document that lacks nothing but its values.
#[derive(Clone, Debug)]
pub(super) struct Fixed {
    bytes: Vec<u8>,
    slots: Vec<(Value, Range<usize>)>,
}

impl Fixed {
    /// A document of these parts; `None`: its layout differs from document to document.
    pub(super) fn new(parts: &[Part]) -> Option<Self> {
        let mut fixed = Self { bytes: Vec::new(), slots: Vec::new() };
        fixed.document(parts)?;
        Some(fixed)
    }

    /// Length of the document in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends the document with all its values.
    pub(super) fn write(&self, seed: u64, key: u64, version: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let document = &mut out[start..];
        let mut random = SplitMix64::of([seed, key, version.into()]);
        for (value, place) in &self.slots {
            value.fill(&mut random, (key, version), &mut document[place.clone()]);
        }
    }

    fn document(&mut self, parts: &[Part]) -> Option<()> {
        let start = self.bytes.len();
        self.bytes.extend([0; 4]);
        for part in parts {
            self.node(part.name.as_bytes(), &part.node)?;
        }
        close(&mut self.bytes, start);
        Some(())
    }

    fn node(&mut self, name: &[u8], node: &Node) -> Option<()> {
        let element_type = match node {
            Node::Value(value) => value.layout()?.0,
            Node::Parts(element_type, _) => *element_type,
            Node::Array { .. } => return None,
        };
        self.bytes.push(element_type);
        self.bytes.extend(name);
        self.bytes.push(0);
        match node {
            Node::Value(value) => {
                let start = self.bytes.len();
                self.bytes.resize(start + value.layout()?.1, 0);
                self.slots.push((value.clone(), start..self.bytes.len()));
                Some(())
            }
            Node::Parts(_, parts) => self.document(parts),
            Node::Array { .. } => None,
        }
    }
}

/// Ends a document that began at `start`, and writes its length there.
pub(super) fn close(bytes: &mut Vec<u8>, start: usize) {
    bytes.push(0);
    let length = (bytes.len() - start) as u32;
    bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
}
