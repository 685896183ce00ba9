//! Cells of an answer as JSON.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow::util::display::array_value_to_string;
use serde_json::Value;

/// A cell. Numbers beyond what a double holds exactly stay numbers, as JSON allows; what JSON has no form for becomes text.
pub fn cell(column: &ArrayRef, row: usize) -> Value {
    if column.is_null(row) {
        return Value::Null;
    }
    match column.data_type() {
        DataType::Boolean => column.as_boolean().value(row).into(),
        DataType::Int8 => column.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => column.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into(),
        DataType::UInt8 => column.as_primitive::<UInt8Type>().value(row).into(),
        DataType::UInt16 => column.as_primitive::<UInt16Type>().value(row).into(),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).into(),
        DataType::Float32 => f64::from(column.as_primitive::<Float32Type>().value(row)).into(),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).into(),
        // Sums of 64-bit numbers are decimals of 38 digits without a fraction.
        DataType::Decimal128(_, 0) => {
            let text = array_value_to_string(column, row).unwrap_or_default();
            text.parse::<u64>()
                .map(Value::from)
                .or_else(|_| text.parse::<i64>().map(Value::from))
                .unwrap_or(Value::String(text))
        }
        _ => Value::String(text(column, row)),
    }
}

/// A cell as text; empty where there is none.
pub fn text(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) { String::new() } else { array_value_to_string(column, row).unwrap_or_default() }
}
