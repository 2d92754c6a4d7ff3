//! One transaction as the queries see it: the same on both engines.

use crate::clock::Timestamp;
use crate::wake::Topic;

use super::StoreError;

/// A statement's argument.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// NULL.
    Null,
    /// Numbers, times (milliseconds) and booleans (0, 1).
    Int(i64),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Blob(&'a [u8]),
}

/// A result's cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// NULL.
    Null,
    /// A number.
    Int(i64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// A result's row; each cell is taken once.
#[derive(Debug)]
pub struct Row(pub Vec<Cell>);

impl Row {
    /// Takes the cell at `index` as a `T`.
    pub fn take<T: FromCell>(&mut self, index: usize) -> Result<T, StoreError> {
        let cell = self.0.get_mut(index).map_or(Cell::Null, |cell| std::mem::replace(cell, Cell::Null));
        T::from_cell(cell)
            .ok_or_else(|| StoreError::Corrupt(format!("column {index} has an unexpected type")))
    }
}

/// What a cell can be read as.
pub trait FromCell: Sized {
    /// Reads it; `None` when it is of another type or out of range.
    fn from_cell(cell: Cell) -> Option<Self>;
}

impl FromCell for i64 {
    fn from_cell(cell: Cell) -> Option<Self> {
        match cell {
            Cell::Int(number) => Some(number),
            _ => None,
        }
    }
}

impl FromCell for String {
    fn from_cell(cell: Cell) -> Option<Self> {
        match cell {
            Cell::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl FromCell for Vec<u8> {
    fn from_cell(cell: Cell) -> Option<Self> {
        match cell {
            Cell::Blob(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl FromCell for bool {
    fn from_cell(cell: Cell) -> Option<Self> {
        i64::from_cell(cell).map(|number| number != 0)
    }
}

impl FromCell for Timestamp {
    fn from_cell(cell: Cell) -> Option<Self> {
        i64::from_cell(cell).map(Self::from_millis)
    }
}

macro_rules! narrow {
    ($($t:ty),*) => { $(impl FromCell for $t {
        fn from_cell(cell: Cell) -> Option<Self> {
            i64::from_cell(cell).and_then(|number| Self::try_from(number).ok())
        }
    })* };
}
narrow!(u16, u32, u64);

impl<T: FromCell> FromCell for Option<T> {
    fn from_cell(cell: Cell) -> Option<Self> {
        match cell {
            Cell::Null => Some(None),
            cell => T::from_cell(cell).map(Some),
        }
    }
}

/// What [`Tx::lock`] holds until the transaction ends. SQLite has one writer and needs none of them.
///
/// Every transaction takes what it needs in one order, so that two can wait for each other's end, never both for the
/// other's: arrivals, dispatch, listeners (by id), streams, events (by position). A dispatch holds one stream; appends
/// of a group hold many, one group of an environment at a time.
#[derive(Clone, Copy, Debug)]
pub enum Lock<'a> {
    /// Order of arrival in this environment.
    Arrivals(&'a str),
    /// Dispatch of this environment against its listeners opening and closing.
    Dispatch(&'a str),
    /// A listener's row, for whoever changes its deliveries without polling.
    Listener(&'a str),
    /// One at a time, whatever the environment: migrations, slugs.
    Global,
}

/// A transaction. SQL is written once, with `?1`, `?2`, ... for arguments.
pub trait Tx {
    /// Runs a statement; the number of rows it touched.
    fn execute(&mut self, sql: &str, args: &[Value<'_>]) -> Result<u64, StoreError>;
    /// Runs a query; all its rows.
    fn query(&mut self, sql: &str, args: &[Value<'_>]) -> Result<Vec<Row>, StoreError>;
    /// Tells `topic` once this transaction is committed, here and in every process on the same store.
    fn tell(&mut self, topic: Topic) -> Result<(), StoreError>;
    /// Waits for and holds a lock until the transaction ends.
    fn lock(&mut self, lock: Lock<'_>) -> Result<(), StoreError>;
    /// Insists that no other piece of work shares this transaction: what follows would break the order of locks. Where
    /// one does, this fails, and each is run again by itself.
    fn insist_on_own(&mut self) -> Result<(), StoreError>;

    /// Runs a query; its first row.
    fn first(&mut self, sql: &str, args: &[Value<'_>]) -> Result<Option<Row>, StoreError> {
        Ok(self.query(sql, args)?.into_iter().next())
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Blob(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for Value<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Self::Blob(bytes)
    }
}

impl<'a> From<&'a bytes::Bytes> for Value<'a> {
    fn from(bytes: &'a bytes::Bytes) -> Self {
        Self::Blob(bytes)
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Int(i64::from(number))
    }
}

impl From<u16> for Value<'_> {
    fn from(number: u16) -> Self {
        Self::Int(i64::from(number))
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        // Nothing that is stored comes near: sizes, counts and milliseconds.
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Value<'_> {
    fn from(number: usize) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Value<'_> {
    fn from(truth: bool) -> Self {
        Self::Int(i64::from(truth))
    }
}

impl From<Timestamp> for Value<'_> {
    fn from(at: Timestamp) -> Self {
        Self::Int(at.millis())
    }
}

impl<'a, T> From<Option<T>> for Value<'a>
where
    Value<'a>: From<T>,
{
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Self::from)
    }
}

/// `args![a, b]`: a statement's arguments, each by its own type.
macro_rules! args {
    ($($value:expr),* $(,)?) => { &[$($crate::store::tx::Value::from($value)),*] };
}
pub(crate) use args;
