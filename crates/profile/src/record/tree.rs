//! Each stack once: a tree of callers whose nodes are functions.

use super::{Frame, Name, Namer, WORKER_SHIFT};
use crate::columns::Values;
use crate::read::Kind;
use base::map::FastMap;
use std::collections::BTreeMap;
use std::path::Path;

/// Nodes, and functions, of one worker's tree: some 60 MB.
const MOST: usize = 1 << 20;

/// What a stack's function is, by numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key {
    Code { file: u32, address: u64 },
    Own { file: u32, address: u64 },
    Made { host: u32, process: u32, address: u64 },
    Python { code: u32 },
    Call(&'static str),
}

/// One worker's stacks. Node 0 is the empty stack.
#[derive(Debug, Default)]
pub(super) struct Tree {
    texts: FastMap<String, u32>,
    files: Vec<String>,
    codes: FastMap<(u32, u32, u32), u32>,
    code_list: Vec<(u32, u32, u32)>,
    frames: FastMap<Key, u32>,
    frame_list: Vec<Key>,
    nodes: FastMap<(u32, u32), u32>,
    /// The parent and the function of each node but the first.
    node_list: Vec<(u32, u32)>,
}

impl Tree {
    /// The node of a stack that begins with another one, 0 for the empty one: the outermost function first, and whether it had to be cut.
    pub(super) fn stack<'a>(&mut self, from: u32, frames: impl Iterator<Item = Frame<'a>>) -> (u32, bool) {
        let mut node = from;
        for frame in frames {
            let Some(next) = self.frame(&frame).and_then(|frame| self.node(node, frame)) else { return (node, true) };
            node = next;
        }
        (node, false)
    }

    fn node(&mut self, parent: u32, frame: u32) -> Option<u32> {
        if let Some(node) = self.nodes.get(&(parent, frame)) {
            return Some(*node);
        }
        if self.node_list.len() >= MOST {
            return None;
        }
        self.node_list.push((parent, frame));
        let node = self.node_list.len() as u32;
        self.nodes.insert((parent, frame), node);
        Some(node)
    }

    fn frame(&mut self, frame: &Frame<'_>) -> Option<u32> {
        let key = match *frame {
            Frame::Code { path, address } => Key::Code { file: self.text(path), address },
            Frame::Own { path, address } => Key::Own { file: self.text(path), address },
            Frame::Made { host, process, address } => Key::Made { host, process, address },
            Frame::Python { name, file, line } => {
                let code = (self.text(name), self.text(file), line);
                Key::Python { code: self.code(code) }
            }
            Frame::Call(name) => Key::Call(name),
        };
        if let Some(frame) = self.frames.get(&key) {
            return Some(*frame);
        }
        if self.frame_list.len() >= MOST {
            return None;
        }
        let frame = self.frame_list.len() as u32;
        self.frame_list.push(key);
        self.frames.insert(key, frame);
        Some(frame)
    }

    fn text(&mut self, text: &str) -> u32 {
        if let Some(id) = self.texts.get(text) {
            return *id;
        }
        let id = self.files.len() as u32;
        self.files.push(text.to_owned());
        self.texts.insert(text.to_owned(), id);
        id
    }

    fn code(&mut self, code: (u32, u32, u32)) -> u32 {
        if let Some(id) = self.codes.get(&code) {
            return *id;
        }
        let id = self.code_list.len() as u32;
        self.code_list.push(code);
        self.codes.insert(code, id);
        id
    }

    /// What a function is called, the innermost of several first.
    fn names(&self, key: Key, namer: &mut dyn Namer) -> (Kind, Vec<Name>) {
        let plain = |function: &str, module: &str| {
            vec![Name { function: function.to_owned(), module: module.to_owned(), ..Name::default() }]
        };
        match key {
            Key::Code { file, address } => (Kind::Native, namer.code(Path::new(&self.files[file as usize]), address)),
            Key::Own { file, address } => (Kind::Simulator, namer.code(Path::new(&self.files[file as usize]), address)),
            Key::Made { host, process, address } => {
                let name = namer.made(host, process, address);
                (Kind::Made, plain(name.as_deref().unwrap_or("generated code"), "generated"))
            }
            Key::Python { code } => {
                let (name, file, line) = self.code_list[code as usize];
                let (name, file) = (self.files[name as usize].clone(), self.files[file as usize].clone());
                let module = file.rsplit('/').next().unwrap_or(&file).to_owned();
                (Kind::Python, vec![Name { function: name, module, file, line }])
            }
            Key::Call(name) => (Kind::Call, plain(name, "system call")),
        }
    }
}

type Columns = Vec<(&'static str, Values)>;

/// The tables of functions and stacks of all workers.
pub(super) fn tables<'a>(trees: impl Iterator<Item = (usize, &'a Tree)>, namer: &mut dyn Namer) -> (Columns, Columns) {
    let (mut ids, mut kinds, mut positions, mut lines) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut functions, mut modules, mut files) = (Vec::new(), Vec::new(), Vec::new());
    let (mut stacks, mut parents, mut stack_frames) = (Vec::new(), Vec::new(), Vec::new());
    // Naming takes time, and workers have much in common.
    let mut named: BTreeMap<(String, u64), Vec<Name>> = BTreeMap::new();
    for (worker, tree) in trees {
        let whole = |local: u32| (worker as i64) << WORKER_SHIFT | i64::from(local);
        for (index, key) in tree.frame_list.iter().enumerate() {
            let (kind, names) = match *key {
                Key::Code { file, address } | Key::Own { file, address } => {
                    let place = (tree.files[file as usize].clone(), address);
                    let kind = if matches!(key, Key::Own { .. }) { Kind::Simulator } else { Kind::Native };
                    let names = named.entry(place).or_insert_with(|| tree.names(*key, namer).1);
                    (kind, names.clone())
                }
                _ => tree.names(*key, namer),
            };
            for (position, name) in names.into_iter().enumerate() {
                ids.push(whole(index as u32));
                kinds.push(kind as i64);
                positions.push(position as i64);
                lines.push(name.line.into());
                functions.push(name.function);
                modules.push(name.module);
                files.push(name.file);
            }
        }
        for (index, (parent, frame)) in tree.node_list.iter().enumerate() {
            stacks.push(whole(index as u32 + 1));
            parents.push(whole(*parent));
            stack_frames.push(whole(*frame));
        }
    }
    let frames = vec![
        ("frame", Values::Integers(ids)),
        ("kind", Values::Integers(kinds)),
        ("position", Values::Integers(positions)),
        ("function", Values::Texts(functions)),
        ("module", Values::Texts(modules)),
        ("file", Values::Texts(files)),
        ("line", Values::Integers(lines)),
    ];
    let stacks = vec![
        ("stack", Values::Integers(stacks)),
        ("parent", Values::Integers(parents)),
        ("frame", Values::Integers(stack_frames)),
    ];
    (frames, stacks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_share_what_they_have_in_common() {
        let mut tree = Tree::default();
        let frame = |address| Frame::Code { path: "/bin/a", address };
        let (one, _) = tree.stack(0, [frame(1), frame(2)].into_iter());
        let (other, _) = tree.stack(0, [frame(1), frame(3)].into_iter());
        assert_ne!(one, other);
        assert_eq!(tree.stack(0, [frame(1), frame(2)].into_iter()), (one, false));
        assert_eq!(tree.node_list, [(0, 0), (1, 1), (1, 2)]);
        assert_eq!(tree.stack(0, std::iter::empty()), (0, false));
        // The same place in the simulator is another function.
        assert_ne!(tree.stack(0, [Frame::Own { path: "/bin/a", address: 1 }].into_iter()).0, 1);
    }
}
