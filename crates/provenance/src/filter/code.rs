//! A compiled expression, and its value for a packet.

use crate::identity::host_of;
use probes::tables::{HostName, Received, Sent};
use probes::{Cells, Kind, Row as _};
use std::borrow::Cow;
use std::net::IpAddr;

/// What an expression has for a packet. Whole numbers are wide enough that sums of columns cannot overflow.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    Whole(i128),
    Truth(bool),
    Text(Cow<'a, str>),
    List(Vec<Value<'a>>),
}

/// There is no value: it divides by zero, or a number is beyond all bounds.
#[derive(Clone, Copy, Debug)]
pub struct Undefined;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Negate,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Not,
    In,
    Size,
    StartsWith,
    EndsWith,
    Contains,
}

/// A step of an expression. Its types have been checked.
#[derive(Clone, Debug)]
pub enum Code {
    Constant(Value<'static>),
    /// A column of `sent` by its place, or of `received` behind those.
    Column(usize),
    /// The name of the host that made the packet, and of the one that it goes to.
    From,
    To,
    /// A variable of a comprehension, by its depth.
    Local(usize),
    Call(Operator, Vec<Code>),
    And(Vec<Code>),
    Or(Vec<Code>),
    If(Box<[Code; 3]>),
    List(Vec<Code>),
    /// For each of a list: its variable and what has been gathered are the two topmost locals.
    Fold(Box<Fold>),
}

#[derive(Clone, Debug)]
pub struct Fold {
    pub list: Code,
    pub start: Code,
    pub goes_on: Code,
    pub step: Code,
    pub result: Code,
}

/// Columns of `sent`, behind which those of `received` begin.
pub const SENT: usize = Sent::TABLE.columns.len();
pub const RECEIVED: usize = Received::TABLE.columns.len();

/// A packet, as expressions see it.
pub struct Row<'a> {
    hosts: &'a [HostName],
    numbers: [u64; SENT + RECEIVED],
    has_received: bool,
}

/// Puts the cells of a row into their places.
struct Places<'a>(&'a mut [u64]);

impl Cells for Places<'_> {
    fn number(&mut self, column: usize, value: u64) {
        self.0[column] = value;
    }

    fn address(&mut self, _: usize, _: IpAddr) {}

    fn text(&mut self, _: usize, _: &str) {}
}

impl<'a> Row<'a> {
    pub fn new(hosts: &'a [HostName], sent: &Sent, received: Option<&Received>) -> Row<'a> {
        let mut numbers = [0; SENT + RECEIVED];
        sent.cells(&mut Places(&mut numbers[..SENT]));
        if let Some(received) = received {
            received.cells(&mut Places(&mut numbers[SENT..]));
        }
        Row { hosts, numbers, has_received: received.is_some() }
    }

    fn name(&self, host: u64) -> Value<'a> {
        let known = self.hosts.binary_search_by_key(&host, |about| about.host);
        Value::Text(known.map_or("", |place| &self.hosts[place].name).into())
    }

    fn column(&self, place: usize) -> Value<'a> {
        let columns = if place < SENT { Sent::TABLE.columns } else { Received::TABLE.columns };
        let number = self.numbers[place];
        match columns[if place < SENT { place } else { place - SENT }].kind {
            // A packet that did not arrive has no fate there.
            Kind::Choice(_) if place >= SENT && !self.has_received => Value::Text("".into()),
            Kind::Choice(words) => Value::Text(words.get(number as usize).copied().unwrap_or("").into()),
            _ => Value::Whole(number.into()),
        }
    }
}

impl Code {
    pub fn value<'a>(&'a self, row: &Row<'a>, locals: &mut Vec<Value<'a>>) -> Result<Value<'a>, Undefined> {
        Ok(match self {
            Code::Constant(value) => value.clone(),
            Code::Column(place) => row.column(*place),
            Code::From => row.name(host_of(row.numbers[0]).0),
            Code::To => {
                let place = Sent::TABLE.columns.iter().position(|column| column.name == "to_host");
                row.name(row.numbers[place.unwrap_or_default()])
            }
            Code::Local(depth) => locals[*depth].clone(),
            Code::And(parts) => return decide(parts, false, row, locals),
            Code::Or(parts) => return decide(parts, true, row, locals),
            Code::If(parts) => {
                let is_true = parts[0].value(row, locals)? == Value::Truth(true);
                return parts[if is_true { 1 } else { 2 }].value(row, locals);
            }
            Code::List(parts) => {
                Value::List(parts.iter().map(|part| part.value(row, locals)).collect::<Result<_, _>>()?)
            }
            Code::Call(operator, parts) => {
                let first = parts[0].value(row, locals)?;
                let second = parts.get(1).map(|part| part.value(row, locals)).transpose()?;
                return operator.apply(first, second.unwrap_or(Value::Truth(false)));
            }
            Code::Fold(fold) => {
                let Value::List(list) = fold.list.value(row, locals)? else { return Err(Undefined) };
                let mut gathered = fold.start.value(row, locals);
                for value in list {
                    // What has no value once has none in the end.
                    let Ok(known) = gathered.clone() else { break };
                    locals.extend([value, known]);
                    let goes_on = fold.goes_on.value(row, locals);
                    if !matches!(goes_on, Ok(Value::Truth(false))) {
                        gathered = fold.step.value(row, locals);
                    }
                    locals.truncate(locals.len() - 2);
                    if matches!(goes_on, Ok(Value::Truth(false))) {
                        break;
                    }
                }
                // The result sees what was gathered only.
                locals.extend([Value::Truth(false), gathered?]);
                let result = fold.result.value(row, locals);
                locals.truncate(locals.len() - 2);
                return result;
            }
        })
    }
}

/// `&&` and `||`: one part that decides is enough, even if another has no value.
fn decide<'a>(
    parts: &'a [Code],
    deciding: bool,
    row: &Row<'a>,
    locals: &mut Vec<Value<'a>>,
) -> Result<Value<'a>, Undefined> {
    let mut undefined = false;
    for part in parts {
        match part.value(row, locals) {
            Ok(value) if value == Value::Truth(deciding) => return Ok(value),
            Ok(_) => {}
            Err(Undefined) => undefined = true,
        }
    }
    if undefined { Err(Undefined) } else { Ok(Value::Truth(!deciding)) }
}

impl Operator {
    fn apply<'a>(self, first: Value<'a>, second: Value<'a>) -> Result<Value<'a>, Undefined> {
        use Value::{List, Text, Truth, Whole};
        let order = match (&first, &second) {
            (Whole(a), Whole(b)) => Some(a.cmp(b)),
            (Text(a), Text(b)) => Some(a.cmp(b)),
            (Truth(a), Truth(b)) => Some(a.cmp(b)),
            _ => None,
        };
        let truth = match self {
            Operator::Equal => first == second,
            Operator::Unequal => first != second,
            Operator::Less => order.is_some_and(|order| order.is_lt()),
            Operator::LessOrEqual => order.is_some_and(|order| order.is_le()),
            Operator::Greater => order.is_some_and(|order| order.is_gt()),
            Operator::GreaterOrEqual => order.is_some_and(|order| order.is_ge()),
            Operator::Not => first == Truth(false),
            Operator::In => matches!(&second, List(list) if list.contains(&first)),
            Operator::StartsWith | Operator::EndsWith | Operator::Contains => match (self, &first, &second) {
                (Operator::StartsWith, Text(a), Text(b)) => a.starts_with(&**b),
                (Operator::EndsWith, Text(a), Text(b)) => a.ends_with(&**b),
                (_, Text(a), Text(b)) => a.contains(&**b),
                _ => return Err(Undefined),
            },
            _ => {
                let number = match (self, first, second) {
                    (Operator::Add, List(mut a), List(b)) => {
                        a.extend(b);
                        return Ok(List(a));
                    }
                    (Operator::Add, Text(a), Text(b)) => return Ok(Text(a + b)),
                    (Operator::Size, List(list), _) => Some(list.len() as i128),
                    (Operator::Size, Text(text), _) => Some(text.chars().count() as i128),
                    (Operator::Negate, Whole(a), _) => a.checked_neg(),
                    (Operator::Add, Whole(a), Whole(b)) => a.checked_add(b),
                    (Operator::Subtract, Whole(a), Whole(b)) => a.checked_sub(b),
                    (Operator::Multiply, Whole(a), Whole(b)) => a.checked_mul(b),
                    (Operator::Divide, Whole(a), Whole(b)) => a.checked_div(b),
                    (Operator::Modulo, Whole(a), Whole(b)) => a.checked_rem(b),
                    _ => None,
                };
                return number.map(Whole).ok_or(Undefined);
            }
        };
        Ok(Truth(truth))
    }
}
