//! Reading little-endian values off the front of a slice, never past its end.

use bson::RawDocumentBuf;

use crate::error::FormatError;

/// What is left to read.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], FormatError> {
        let (head, tail) = self.0.split_at_checked(count).ok_or(FormatError::Truncated(what))?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], FormatError> {
        let (head, tail) = self.0.split_first_chunk().ok_or(FormatError::Truncated(what))?;
        self.0 = tail;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, FormatError> {
        Ok(u8::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, FormatError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn i32(&mut self, what: &'static str) -> Result<i32, FormatError> {
        Ok(i32::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn i64(&mut self, what: &'static str) -> Result<i64, FormatError> {
        Ok(i64::from_le_bytes(self.array(what)?))
    }

    /// A piece that starts with its own length, the four length bytes included in the count.
    pub(crate) fn sized(&mut self, what: &'static str) -> Result<&'a [u8], FormatError> {
        let length = Bytes(self.0).i32(what)?;
        let length = usize::try_from(length).map_err(|_| FormatError::Truncated(what))?;
        self.take(length, what)
    }

    pub(crate) fn document(&mut self) -> Result<RawDocumentBuf, FormatError> {
        RawDocumentBuf::from_bytes(self.sized("a document")?.to_vec()).map_err(FormatError::bson)
    }

    /// A string that ends with a NUL.
    pub(crate) fn name(&mut self) -> Result<&'a str, FormatError> {
        let end = self.0.iter().position(|&byte| byte == 0).ok_or(FormatError::Truncated("a name"))?;
        let name = self.take(end, "a name")?;
        self.take(1, "a name")?;
        std::str::from_utf8(name).map_err(|_| FormatError::Name)
    }
}
