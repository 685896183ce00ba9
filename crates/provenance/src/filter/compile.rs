//! From the text of an expression to code, with all names and types settled.

use super::code::{Code, Fold, Operator, SENT, Value};
use super::words::Choice;
use cel::IdedExpr;
use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, LiteralValue, SourceInfo};
use cel::parser::Parser;
use probes::tables::{Received, Sent};
use probes::{Column, Kind, Row};

/// Columns of `received` that expressions see under their own names; its fate is `received_fate`.
const OF_RECEIVED: [&str; 5] =
    ["arrived_ns", "downlink_ns", "reassembly_ns", "receive_queue_ns", "receive_queue_bytes"];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Type {
    Whole,
    Truth,
    Text,
    /// None of an empty list.
    List(Option<Box<Type>>),
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Type::Whole => f.write_str("int"),
            Type::Truth => f.write_str("bool"),
            Type::Text => f.write_str("string"),
            Type::List(Some(of)) => write!(f, "list({of})"),
            Type::List(None) => f.write_str("list"),
        }
    }
}

impl Type {
    /// The type that both are, if they can be one.
    fn joined(&self, other: &Type) -> Option<Type> {
        match (self, other) {
            (Type::List(None), Type::List(_)) => Some(other.clone()),
            (Type::List(_), Type::List(None)) => Some(self.clone()),
            _ => (self == other).then(|| self.clone()),
        }
    }
}

/// Code of a type.
type Typed = (Code, Type);

struct Compiler<'a> {
    source: SourceInfo,
    /// The names of all hosts.
    hosts: &'a [&'a str],
    /// Names of comprehensions, from the outermost on.
    locals: Vec<(String, Type)>,
    needs_received: bool,
}

/// The code, and whether it needs what receivers know.
pub fn compile(text: &str, hosts: &[&str]) -> Result<(Code, bool), String> {
    let parsed = Parser::new().parse_with_source_info(text).map_err(|errors| {
        let told = errors.errors.iter().map(|error| {
            let (line, column) = (error.pos.0.max(1), error.pos.1.max(1));
            format!("line {line}, column {column}: {}", error.msg.lines().next().unwrap_or_default())
        });
        told.collect::<Vec<_>>().join("; ")
    })?;
    let (expression, source) = parsed;
    let mut compiler = Compiler { source, hosts, locals: Vec::new(), needs_received: false };
    let (code, of) = compiler.code(&expression)?;
    if of != Type::Truth {
        return Err(
            compiler.wrong(&expression, &format!("the whole is of type {of}, and must be true or false (bool)"))
        );
    }
    Ok((code, compiler.needs_received))
}

impl Compiler<'_> {
    /// An error, with its place.
    fn wrong(&self, at: &IdedExpr, what: &str) -> String {
        let Some((start, _)) = self.source.offset_for(at.id) else { return what.to_owned() };
        let before: String = self.source.source.chars().take(start as usize).collect();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!("line {line}, column {column}: {what}")
    }

    fn code(&mut self, expression: &IdedExpr) -> Result<Typed, String> {
        match &expression.expr {
            Expr::Literal(literal) => self.literal(expression, literal),
            Expr::Ident(name) => self.name(expression, name),
            Expr::Call(call) => self.call(expression, call),
            Expr::List(list) => {
                let mut of = None;
                let mut parts = Vec::new();
                for element in &list.elements {
                    let (code, found) = self.code(element)?;
                    let joined = of.as_ref().map_or(Some(found.clone()), |of: &Type| of.joined(&found));
                    let mixed = || format!("a list has elements of one type, and this one is of type {found}");
                    of = Some(joined.ok_or_else(|| self.wrong(element, &mixed()))?);
                    parts.push(code);
                }
                Ok((Code::List(parts), Type::List(of.map(Box::new))))
            }
            Expr::Comprehension(comprehension) => self.comprehension(expression, comprehension),
            Expr::Select(select) => {
                Err(self.wrong(expression, &format!("nothing here has a field '{}'", select.field)))
            }
            Expr::Map(_) | Expr::Struct(_) => Err(self.wrong(expression, "maps and messages are not for filters")),
            Expr::Unspecified => Err(self.wrong(expression, "there is no expression")),
        }
    }

    fn literal(&self, at: &IdedExpr, literal: &LiteralValue) -> Result<Typed, String> {
        let whole = |value: i128| Ok((Code::Constant(Value::Whole(value)), Type::Whole));
        match literal {
            LiteralValue::Boolean(value) => Ok((Code::Constant(Value::Truth(**value)), Type::Truth)),
            LiteralValue::Int(value) => whole((**value).into()),
            LiteralValue::UInt(value) => whole((**value).into()),
            LiteralValue::Double(value) if value.fract() == 0.0 && value.abs() < 1e18 => whole(**value as i128),
            LiteralValue::Double(_) => Err(self.wrong(at, "all columns are whole numbers; so must this one be")),
            LiteralValue::String(text) => Ok((Code::Constant(Value::Text(text.inner().to_owned().into())), Type::Text)),
            LiteralValue::Bytes(_) | LiteralValue::Null => Err(self.wrong(at, "no column is of this type")),
        }
    }

    fn name(&mut self, at: &IdedExpr, name: &str) -> Result<Typed, String> {
        if let Some(depth) = self.locals.iter().rposition(|(local, _)| local == name) {
            return Ok((Code::Local(depth), self.locals[depth].1.clone()));
        }
        match name {
            "host" => return Ok((Code::From, Type::Text)),
            "to" => return Ok((Code::To, Type::Text)),
            _ => {}
        }
        let of = |column: &Column| if matches!(column.kind, Kind::Choice(_)) { Type::Text } else { Type::Whole };
        let place = |columns: &[Column], name: &str| columns.iter().position(|column| column.name == name);
        if let Some(place) = place(Sent::TABLE.columns, name) {
            return Ok((Code::Column(place), of(&Sent::TABLE.columns[place])));
        }
        let received = match name {
            "received_fate" => Some("fate"),
            _ => OF_RECEIVED.into_iter().find(|known| *known == name),
        };
        if let Some(place) = received.and_then(|name| place(Received::TABLE.columns, name)) {
            self.needs_received = true;
            return Ok((Code::Column(SENT + place), of(&Received::TABLE.columns[place])));
        }
        let columns: Vec<&str> = Sent::TABLE.columns.iter().map(|column| column.name).collect();
        let what = format!(
            "there is no '{name}'; there are host, to, {}, {}, received_fate",
            columns.join(", "),
            OF_RECEIVED.join(", ")
        );
        Err(self.wrong(at, &what))
    }

    fn call(&mut self, at: &IdedExpr, call: &CallExpr) -> Result<Typed, String> {
        let mut parts = Vec::new();
        let mut types = Vec::new();
        let given: Vec<&IdedExpr> = call.target.as_deref().into_iter().chain(&call.args).collect();
        for part in &given {
            let (code, of) = self.code(part)?;
            parts.push(code);
            types.push(of);
        }
        let name = call.func_name.as_str();
        let no = |compiler: &Compiler| {
            let types: Vec<String> = types.iter().map(Type::to_string).collect();
            let name = name.trim_matches(['_', '@']);
            compiler.wrong(at, &format!("'{name}' is not for ({})", types.join(", ")))
        };
        let two_alike = types.len() == 2 && types[0].joined(&types[1]).is_some();
        let whole = types.iter().all(|of| *of == Type::Whole);
        let truth = types.iter().all(|of| *of == Type::Truth);
        let text = types.iter().all(|of| *of == Type::Text);
        let operator = match name {
            "_&&_" if truth => return Ok((Code::And(parts), Type::Truth)),
            "_||_" if truth => return Ok((Code::Or(parts), Type::Truth)),
            "@not_strictly_false" if truth && parts.len() == 1 => return Ok((parts.remove(0), Type::Truth)),
            "_?_:_" => {
                let of = types[1].joined(&types[2]).filter(|_| types[0] == Type::Truth).ok_or_else(|| no(self))?;
                let parts: [Code; 3] = parts.try_into().map_err(|_| no(self))?;
                return Ok((Code::If(Box::new(parts)), of));
            }
            "_+_" if two_alike && !truth => {
                let of = types[0].joined(&types[1]).ok_or_else(|| no(self))?;
                return Ok((Code::Call(Operator::Add, parts), of));
            }
            "!_" if truth => Operator::Not,
            "_==_" if two_alike => Operator::Equal,
            "_!=_" if two_alike => Operator::Unequal,
            "_<_" | "_<=_" | "_>_" | "_>=_" if two_alike && !matches!(types[0], Type::List(_)) => match name {
                "_<_" => Operator::Less,
                "_<=_" => Operator::LessOrEqual,
                "_>_" => Operator::Greater,
                _ => Operator::GreaterOrEqual,
            },
            "@in" => match &types[1] {
                Type::List(of) if of.as_ref().is_none_or(|of| **of == types[0]) => Operator::In,
                _ => return Err(no(self)),
            },
            "startsWith" if text && parts.len() == 2 => Operator::StartsWith,
            "endsWith" if text && parts.len() == 2 => Operator::EndsWith,
            "contains" if text && parts.len() == 2 => Operator::Contains,
            "size" if matches!(types[..], [Type::Text | Type::List(_)]) => Operator::Size,
            "_-_" | "_*_" | "_/_" | "_%_" | "-_" if whole => match name {
                "_-_" => Operator::Subtract,
                "_*_" => Operator::Multiply,
                "_/_" => Operator::Divide,
                "_%_" => Operator::Modulo,
                _ => Operator::Negate,
            },
            "_&&_" | "_||_" | "!_" | "_+_" | "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" | "startsWith"
            | "endsWith" | "contains" | "size" | "_-_" | "_*_" | "_/_" | "_%_" | "-_" => return Err(no(self)),
            _ => {
                let known = "size, startsWith, endsWith, contains, exists, all, exists_one, map and filter";
                return Err(self.wrong(at, &format!("there is no function '{name}'; there are {known}")));
            }
        };
        if matches!(operator, Operator::Equal | Operator::Unequal | Operator::In) {
            self.check_literals(given[0], &parts[1])?;
            self.check_literals(given[1], &parts[0])?;
        }
        let of = match operator {
            Operator::Size | Operator::Subtract | Operator::Multiply | Operator::Divide => Type::Whole,
            Operator::Modulo | Operator::Negate => Type::Whole,
            _ => Type::Truth,
        };
        Ok((Code::Call(operator, parts), of))
    }

    /// Refuses texts that nothing they are compared with can be.
    fn check_literals(&self, side: &IdedExpr, other: &Code) -> Result<(), String> {
        let Some(choice) = Choice::of(other) else { return Ok(()) };
        let literals = match &side.expr {
            Expr::List(list) => &list.elements[..],
            _ => std::slice::from_ref(side),
        };
        for literal in literals {
            if let Expr::Literal(LiteralValue::String(text)) = &literal.expr
                && let Some(refusal) = choice.refusal(text.inner(), self.hosts)
            {
                return Err(self.wrong(literal, &refusal));
            }
        }
        Ok(())
    }

    /// `exists`, `all` and their relatives, which the parser has taken apart.
    fn comprehension(&mut self, at: &IdedExpr, parts: &ComprehensionExpr) -> Result<Typed, String> {
        let (list, of) = self.code(&parts.iter_range)?;
        let Type::List(of) = of else {
            return Err(self.wrong(&parts.iter_range, &format!("this is of type {of}, and must be a list")));
        };
        if parts.iter_var2.is_some() {
            return Err(self.wrong(at, "lists have one variable"));
        }
        let element = of.map_or(Type::Whole, |of| *of);
        let (start, mut gathered) = self.code(&parts.accu_init)?;
        // What is gathered may be an empty list at first, which the step says more of.
        for round in 0.. {
            self.locals.push((parts.iter_var.clone(), element.clone()));
            self.locals.push((parts.accu_var.clone(), gathered.clone()));
            let goes_on = self.code(&parts.loop_cond)?;
            let (step, next) = self.code(&parts.loop_step)?;
            let (result, of) = self.code(&parts.result)?;
            self.locals.truncate(self.locals.len() - 2);
            let joined = gathered.joined(&next).filter(|_| goes_on.1 == Type::Truth);
            let joined = joined.ok_or_else(|| self.wrong(at, &format!("what is asked of each is of type {next}")))?;
            if joined == gathered || round > 0 {
                let fold = Fold { list, start, goes_on: goes_on.0, step, result };
                return Ok((Code::Fold(Box::new(fold)), of));
            }
            gathered = joined;
        }
        unreachable!("the second round is the last")
    }
}
