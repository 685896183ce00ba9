//! Directory listings: sorted by name, so that they do not depend on the machine's file system, overlays merged.

use super::mounts::{Area, Lower};
use super::synthetic::{self, View};
use super::{Node, RealNode, Vfs, as_path};
use linux_abi::Errno;
use linux_abi::fs::{DT_BLK, DT_CHR, DT_DIR, DT_FIFO, DT_LNK, DT_REG, DT_SOCK};
use std::collections::BTreeMap;
use std::fs::FileType;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, FileTypeExt};
use std::rc::Rc;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub name: Vec<u8>,
    pub number: u64,
    /// One of `DT_*`.
    pub kind: u8,
}

/// What a real directory says of an entry.
pub(super) struct Found {
    /// Where the directory really lies.
    folder: Rc<[u8]>,
    device: u64,
    inode: u64,
    kind: u8,
}

impl Vfs {
    /// The entries of a directory, `.` and `..` first.
    pub fn list(&mut self, view: &View<'_>, path: &[u8], node: &Node) -> Result<Vec<Entry>, Errno> {
        let mut entries = Vec::new();
        for (name, at) in [(&b"."[..], path), (&b".."[..], super::parent(path))] {
            let number = match self.lookup(view, at)? {
                Some(Node::Real(node)) => self.identities.of_node(&node),
                _ => synthetic::number(at),
            };
            entries.push(Entry { name: name.to_vec(), number, kind: DT_DIR as u8 });
        }
        match node {
            Node::Synthetic(_) => {
                entries.extend(synthetic::list(view, path));
                entries.extend(self.list_made_beside(path)?);
            }
            Node::Real(node) => {
                let mut names = self.list_names(path, node)?;
                self.mounts.show_run(path, &mut names);
                entries.extend(self.entries(names));
            }
        }
        Ok(entries)
    }

    fn entries(&mut self, names: BTreeMap<Vec<u8>, Found>) -> Vec<Entry> {
        let entry = |(name, found): (Vec<u8>, Found)| {
            let slash: &[u8] = if found.folder.ends_with(b"/") { b"" } else { b"/" };
            let number = self.identities.found_at(found.device, found.inode, &[&found.folder, slash, &name]);
            let device = self.identities.device_of(number);
            // The types of directory entries are those of modes, shifted.
            let kind = device.map_or(found.kind, |(kind, _)| (kind >> 12) as u8);
            Entry { name, number, kind }
        };
        names.into_iter().map(entry).collect()
    }

    /// What guests have made in a directory whose other entries are made up.
    fn list_made_beside(&mut self, path: &[u8]) -> Result<Vec<Entry>, Errno> {
        let mut names = BTreeMap::new();
        if let (Area::Overlay(overlay), prefix) = self.mounts.find(path)
            && overlay.lower == Lower::MadeUp
            && overlay.used
            && path.len() == prefix
            && let Some(upper) = super::walk::real_node(&overlay.upper, true)?
        {
            read_directory(&upper, &mut names)?;
        }
        Ok(self.entries(names))
    }

    /// The names in a real directory, overlays merged.
    pub(super) fn list_names(&self, path: &[u8], node: &RealNode) -> Result<BTreeMap<Vec<u8>, Found>, Errno> {
        let mut names = BTreeMap::new();
        let machine = self.mounts.machine_path(path);
        let upper = if super::mounts::is_beside_run(path) { self.lookup_upper(&machine)? } else { None };
        let (path, node) = (&*machine, upper.as_ref().unwrap_or(node));
        let lower = matches!(self.mounts.find(path).0, Area::Overlay(overlay) if overlay.shows_machine());
        if lower
            && !self.is_hidden(path)
            && let Some(below) = super::walk::real_node(path, false)?
        {
            // A machine's directory that may not be read shows nothing.
            let _ = read_directory(&below, &mut names);
            self.reads(&below);
            names.retain(|name, _| !self.is_hidden(&[path, b"/", name].concat()));
        }
        if node.writable || !lower {
            read_directory(node, &mut names)?;
            self.reads(node);
            if node.writable {
                self.looks_at(&node.path);
                names.retain(|name, _| !self.visitor.hides(&[&node.path, &b"/"[..], name].concat()));
            }
        }
        Ok(names)
    }
}

fn read_directory(node: &RealNode, names: &mut BTreeMap<Vec<u8>, Found>) -> Result<(), Errno> {
    let entries = std::fs::read_dir(as_path(&node.path)).map_err(|e| crate::machine::io_errno(&e))?;
    let folder: Rc<[u8]> = node.path.as_slice().into();
    for entry in entries {
        let entry = entry.map_err(|e| crate::machine::io_errno(&e))?;
        let kind = entry.file_type().map_or(0, dirent_kind);
        names.insert(
            entry.file_name().as_bytes().to_vec(),
            Found { folder: Rc::clone(&folder), device: node.stat.st_dev, inode: entry.ino(), kind },
        );
    }
    Ok(())
}

fn dirent_kind(kind: FileType) -> u8 {
    let dirent = match kind {
        k if k.is_dir() => DT_DIR,
        k if k.is_symlink() => DT_LNK,
        k if k.is_fifo() => DT_FIFO,
        k if k.is_socket() => DT_SOCK,
        k if k.is_char_device() => DT_CHR,
        k if k.is_block_device() => DT_BLK,
        _ => DT_REG,
    };
    dirent as u8
}
