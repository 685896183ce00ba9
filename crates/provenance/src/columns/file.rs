//! A Parquet file of a table's rows: row groups of [`GROUP_ROWS`], each column as differences or as a dictionary, whichever is shorter.

use super::dictionary::{self, Lookup};
use super::{Column, Columns, delta};
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{ColumnDescPtr, Type};
use probes::{Kind, Table};
use std::fs;
use std::io::Write;
use std::sync::Arc;

/// Rows of a row group: what a reader must decode to see one, and what it can leave out at once. DuckDB's own number.
pub const GROUP_ROWS: usize = 122_880;

/// Rows of a page.
const PAGE_ROWS: usize = 20_480;

/// A file that grows by row groups.
pub struct File<W: Write + Send = fs::File> {
    table: &'static Table,
    writer: SerializedFileWriter<W>,
    encoder: Encoder,
}

/// A chunk of one column, as it stands in the file.
#[derive(Default)]
struct Encoder {
    lookup: Lookup,
    page: Vec<u8>,
    /// Where pages of a dictionary end in it, and how many rows they have.
    ends: Vec<(usize, usize)>,
}

impl<W: Write + Send> File<W> {
    /// `about` becomes the file's own metadata.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(to: W, table: &'static Table, about: &[(String, String)]) -> Result<File<W>, ParquetError> {
        let fields = table.columns.iter().map(|column| {
            let (physical, logical) = match column.kind {
                Kind::Ip | Kind::Text | Kind::Choice(_) => (Physical::BYTE_ARRAY, LogicalType::String),
                _ => (Physical::INT64, LogicalType::integer(64, false)),
            };
            let field = Type::primitive_type_builder(column.name, physical).with_repetition(Repetition::REQUIRED);
            field.with_logical_type(Some(logical)).build().map(Arc::new)
        });
        let fields = fields.collect::<Result<_, _>>()?;
        let schema = Type::group_type_builder(table.name).with_fields(fields).build()?;
        let sorting = (0..table.key)
            .map(|column| SortingColumn { column_idx: column as i32, descending: false, nulls_first: false })
            .collect();
        let about = about.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone())).collect();
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_sorting_columns(Some(sorting))
            .set_created_by(concat!("Gnomon ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(Some(about))
            .build();
        let writer = SerializedFileWriter::new(to, Arc::new(schema), Arc::new(properties))?;
        Ok(File { table, writer, encoder: Encoder::default() })
    }

    /// Appends a row group.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn group(&mut self, rows: &Columns) -> Result<(), ParquetError> {
        let described = self.writer.schema_descr().columns().to_vec();
        let mut group = self.writer.next_row_group()?;
        for ((column, about), described) in rows.columns.iter().zip(self.table.columns).zip(described) {
            match (column, about.kind) {
                (Column::Words(words), _) => {
                    let words: Vec<ByteArray> = words.iter().map(|word| word.as_str().into()).collect();
                    let mut writer = group.next_column()?.expect("as many columns as the schema has");
                    writer.typed::<ByteArrayType>().write_batch(&words, None, None)?;
                    writer.close()?;
                }
                (Column::Numbers(numbers), Kind::Choice(words)) => {
                    let (bytes, close) = self.encoder.words(numbers, words, described)?;
                    group.append_column(&bytes, close)?;
                }
                (Column::Numbers(numbers), _) => {
                    let (bytes, close) = self.encoder.numbers(numbers, described)?;
                    group.append_column(&bytes, close)?;
                }
            }
        }
        group.close().map(|_| ())
    }

    /// Ends the file; how many bytes it has.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn close(mut self) -> Result<u64, ParquetError> {
        self.writer.finish()?;
        Ok(self.writer.bytes_written() as u64)
    }
}

impl Encoder {
    fn numbers(
        &mut self,
        numbers: &[u64],
        described: ColumnDescPtr,
    ) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        let (smallest, largest) =
            numbers.iter().fold((u64::MAX, 0), |(low, high), &number| (low.min(number), high.max(number)));
        let statistics = Statistics::int64(Some(smallest as i64), Some(largest as i64), None, Some(0), false);
        let mut chunk = Chunk::new(described, numbers.len(), statistics);
        if self.dictionary_is_shorter(numbers) {
            self.dictionary(&mut chunk)?;
        } else {
            for numbers in numbers.chunks(PAGE_ROWS) {
                self.page.clear();
                delta::encode(numbers, &mut self.page);
                chunk.page(&self.page, numbers.len(), Encoding::DELTA_BINARY_PACKED)?;
            }
        }
        chunk.close()
    }

    fn dictionary_is_shorter(&mut self, numbers: &[u64]) -> bool {
        if !self.lookup.fill(numbers) {
            return false;
        }
        self.places();
        8 * self.lookup.values.len() + self.page.len() < delta::size(numbers)
    }

    /// The data pages of a dictionary, one after the other.
    fn places(&mut self) {
        self.page.clear();
        self.ends.clear();
        for places in self.lookup.places.chunks(PAGE_ROWS) {
            dictionary::encode(places, self.lookup.values.len(), &mut self.page);
            self.ends.push((self.page.len(), places.len()));
        }
    }

    /// Those pages behind the list of numbers.
    fn dictionary(&self, chunk: &mut Chunk) -> Result<(), ParquetError> {
        let list: Vec<u8> = self.lookup.values.iter().flat_map(|value| value.to_le_bytes()).collect();
        chunk.dictionary(list, self.lookup.values.len())?;
        self.put_places(chunk)
    }

    fn put_places(&self, chunk: &mut Chunk) -> Result<(), ParquetError> {
        let mut start = 0;
        for &(end, rows) in &self.ends {
            chunk.page(&self.page[start..end], rows, Encoding::RLE_DICTIONARY)?;
            start = end;
        }
        Ok(())
    }

    fn words(
        &mut self,
        numbers: &[u64],
        words: &[&str],
        described: ColumnDescPtr,
    ) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        // There are fewer words than a list has places.
        self.lookup.fill(numbers);
        let word = |number: u64| words.get(number as usize).copied().unwrap_or("?");
        let of = |value: &u64| word(*value);
        let array = |word: &str| ByteArray::from(word);
        let bounds = (self.lookup.values.iter().map(of).min(), self.lookup.values.iter().map(of).max());
        let statistics = Statistics::byte_array(bounds.0.map(array), bounds.1.map(array), None, Some(0), false);
        let mut chunk = Chunk::new(described, numbers.len(), statistics);
        let mut list = Vec::new();
        for word in self.lookup.values.iter().map(of) {
            list.extend_from_slice(&(word.len() as u32).to_le_bytes());
            list.extend_from_slice(word.as_bytes());
        }
        chunk.dictionary(list, self.lookup.values.len())?;
        self.places();
        self.put_places(&mut chunk)?;
        chunk.close()
    }
}

/// A column chunk under construction, with its page headers.
struct Chunk {
    described: ColumnDescPtr,
    rows: usize,
    statistics: Statistics,
    bytes: TrackedWrite<Vec<u8>>,
    raw: usize,
    /// Where data begins, behind a dictionary.
    data: Option<usize>,
    encodings: Vec<Encoding>,
    snappy: snap::raw::Encoder,
}

impl Chunk {
    fn new(described: ColumnDescPtr, rows: usize, statistics: Statistics) -> Chunk {
        let bytes = TrackedWrite::new(Vec::new());
        Chunk {
            described,
            rows,
            statistics,
            bytes,
            raw: 0,
            data: None,
            encodings: Vec::new(),
            snappy: snap::raw::Encoder::new(),
        }
    }

    fn dictionary(&mut self, list: Vec<u8>, values: usize) -> Result<(), ParquetError> {
        let encoding = Encoding::PLAIN;
        self.encodings.push(encoding);
        let page = |buf| Page::DictionaryPage { buf, num_values: values as u32, encoding, is_sorted: false };
        self.put(page, &list)
    }

    fn page(&mut self, bytes: &[u8], rows: usize, encoding: Encoding) -> Result<(), ParquetError> {
        if self.data.is_none() {
            self.data = Some(self.bytes.bytes_written());
            self.encodings.push(encoding);
        }
        let page = |buf| Page::DataPage {
            buf,
            num_values: rows as u32,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        self.put(page, bytes)
    }

    fn put(&mut self, page: impl FnOnce(Bytes) -> Page, bytes: &[u8]) -> Result<(), ParquetError> {
        let packed = self.snappy.compress_vec(bytes).map_err(|cause| ParquetError::External(Box::new(cause)))?;
        let page = page(packed.into());
        let written = SerializedPageWriter::new(&mut self.bytes).write_page(CompressedPage::new(page, bytes.len()))?;
        self.raw += written.uncompressed_size;
        Ok(())
    }

    fn close(self) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        let bytes = self.bytes.into_inner()?;
        let data = self.data.unwrap_or(0);
        let metadata = ColumnChunkMetaData::builder(self.described)
            .set_compression(Compression::SNAPPY)
            .set_encodings(self.encodings)
            .set_total_compressed_size(bytes.len() as i64)
            .set_total_uncompressed_size(self.raw as i64)
            .set_num_values(self.rows as i64)
            .set_data_page_offset(data as i64)
            .set_dictionary_page_offset((data > 0).then_some(0))
            .set_statistics(self.statistics)
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: self.rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((bytes.into(), close))
    }
}
