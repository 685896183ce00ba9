//! The data directory, in the layout that tools know from Shadow: `processed-config.yaml`, `sim-stats.json`, and per host
//! `hosts/HOST/EXE.PID.{stdout,stderr,strace}` and `hosts/HOST/{lo,eth0}.pcap`.

use crate::error::{Error, Result};
use crate::stats::SimStats;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// One run's directory. Creating it is the claim that nothing older is in it.
#[derive(Clone, Debug)]
pub struct DataDirectory {
    path: PathBuf,
}

/// The directory of one host: its guests' working directory.
#[derive(Clone, Debug)]
pub struct HostDirectory {
    path: PathBuf,
}

/// The files that the recorder keeps per guest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum GuestFile {
    Stdout,
    Stderr,
    Strace,
}

impl GuestFile {
    pub const fn extension(self) -> &'static str {
        match self {
            GuestFile::Stdout => "stdout",
            GuestFile::Stderr => "stderr",
            GuestFile::Strace => "strace",
        }
    }
}

impl DataDirectory {
    /// Creates the directory and its `hosts`. Fails when it exists, so that no run's results mix with another's. A template
    /// is copied into it first, as long as `goes_on` says so. The path returned is absolute, with links resolved.
    pub fn create(path: &Path, template: Option<&Path>, goes_on: &dyn Fn() -> bool) -> Result<DataDirectory> {
        if let Some(template) = template
            && !template.is_dir()
        {
            let remedy = "it is no directory: name an existing one as template_directory, or leave it out".to_string();
            return Err(Error::refused("copy the template directory", template, remedy));
        }
        match fs::create_dir(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(already_exists(path)),
            Err(error) => return Err(Error::io("create the data directory", path, error)),
        }
        let path = path.canonicalize().map_err(|error| Error::io("find the data directory", path, error))?;
        if let Some(template) = template {
            copy_tree(template, &path, &path, goes_on)?;
        }
        create_dir_if_missing(&path.join("hosts"))?;
        Ok(DataDirectory { path })
    }

    /// The directory that another process of the same run has created, as this one sees it.
    ///
    /// # Errors
    /// When it is not there, or another one is.
    pub fn join(path: &Path, mark: &str) -> Result<DataDirectory> {
        let file = path.join(Self::MARK);
        let found = fs::read_to_string(&file).map_err(|error| Error::io("see the data directory", &file, error))?;
        if found != mark {
            return Err(Error::refused("see the data directory", path, "another one is in its place".to_owned()));
        }
        Ok(DataDirectory { path: path.to_path_buf() })
    }

    /// Marks the directory while the processes of a run find it.
    pub fn mark(&self, mark: &str) -> Result<()> {
        self.write(Self::MARK, mark.as_bytes())
    }

    pub fn unmark(&self) -> Result<()> {
        let file = self.path.join(Self::MARK);
        fs::remove_file(&file).map_err(|error| Error::io("remove", &file, error))
    }

    /// The file by which processes see that they see one directory.
    const MARK: &str = ".ranks";

    /// Absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn hosts_path(&self) -> PathBuf {
        self.path.join("hosts")
    }

    /// Creates a host's directory, unless the template brought it.
    pub fn create_host(&self, name: &str) -> Result<HostDirectory> {
        let path = self.hosts_path().join(name);
        create_dir_if_missing(&path)?;
        Ok(HostDirectory { path })
    }

    pub fn write_processed_config(&self, yaml: &str) -> Result<()> {
        self.write("processed-config.yaml", yaml.as_bytes())
    }

    /// What guests have read of the machine, as [`describe`](crate::machine_files::describe) puts it.
    pub fn write_machine_files(&self, text: &str) -> Result<()> {
        self.write(crate::machine_files::FILE, text.as_bytes())
    }

    pub fn write_sim_stats(&self, stats: &SimStats) -> Result<()> {
        self.write("sim-stats.json", stats.to_json().as_bytes())
    }

    /// Makes `name` in the directory a symbolic link, in place of what may be there.
    pub fn link(&self, name: &str, target: &Path) -> Result<()> {
        let path = self.path.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => std::os::unix::fs::symlink(target, &path),
        }
        .map_err(|error| Error::io("make the link", &path, error))
    }

    /// Writes a whole file of the run beside the known ones.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        fs::write(&path, content).map_err(|error| Error::io("write", &path, error))
    }
}

impl HostDirectory {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a guest's output goes; `exe` is the program's file name without directories.
    pub fn guest_file(&self, exe: &str, pid: u32, file: GuestFile) -> PathBuf {
        self.path.join(format!("{exe}.{pid}.{}", file.extension()))
    }

    /// Where an interface's capture goes. Shadow's name; the content is pcapng, which every reader of such files tells by its
    /// first bytes.
    pub fn capture_file(&self, interface: &str) -> PathBuf {
        self.path.join(format!("{interface}.pcap"))
    }
}

fn already_exists(path: &Path) -> Error {
    let remedy = "it exists already; remove it, or choose another one with --data-directory".to_string();
    Error::refused("create the data directory", path, remedy)
}

fn create_dir_if_missing(path: &Path) -> Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other.map_err(|error| Error::io("create the directory", path, error)),
    }
}

/// Copies what is in `from` into the existing `to`; links are copied as links. `skip` is the data directory itself, should it
/// lie inside the template.
fn copy_tree(from: &Path, to: &Path, skip: &Path, goes_on: &dyn Fn() -> bool) -> Result<()> {
    let entries = fs::read_dir(from).map_err(|error| Error::io("read the template directory", from, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| Error::io("read the template directory", from, error))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let failed = |error| Error::io("copy from the template directory", &source, error);
        let kind = entry.file_type().map_err(failed)?;
        if !goes_on() {
            return Err(Error::refused("copy from the template directory", &source, "interrupted".to_owned()));
        }
        if kind.is_dir() {
            if source.canonicalize().is_ok_and(|real| real == skip) {
                continue;
            }
            create_dir_if_missing(&target)?;
            copy_tree(&source, &target, skip, goes_on)?;
        } else if kind.is_symlink() {
            let link = fs::read_link(&source).map_err(failed)?;
            std::os::unix::fs::symlink(link, &target).map_err(failed)?;
        } else if !kind.is_file() {
            // A copy would wait for a pipe's writer, and of a device there may be no end.
            let remedy =
                "it is no file, directory or link; remove it from there, and let a program of the experiment make it";
            return Err(Error::refused("copy from the template directory", &source, remedy.to_owned()));
        } else {
            copy_file(&source, &target, goes_on).map_err(failed)?;
        }
    }
    Ok(())
}

/// Copies a file with its permissions, in pieces between which the copying can be ended.
fn copy_file(source: &Path, target: &Path, goes_on: &dyn Fn() -> bool) -> io::Result<()> {
    const PIECE: u64 = 64 << 20;
    let (mut from, mut to) = (fs::File::open(source)?, fs::File::create(target)?);
    while io::copy(&mut (&mut from).take(PIECE), &mut to)? > 0 {
        if !goes_on() {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
        }
    }
    fs::set_permissions(target, from.metadata()?.permissions())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::tests::TempDir;

    #[test]
    fn an_existing_directory_is_refused_with_a_remedy() {
        let temp = TempDir::new("exists");
        let path = temp.path.join("run");
        let data = DataDirectory::create(&path, None, &|| true).unwrap();
        assert!(data.hosts_path().is_dir());
        let error = DataDirectory::create(&path, None, &|| true).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "cannot create the data directory '{}': it exists already; remove it, or choose another one with \
                 --data-directory",
                path.display()
            )
        );
    }

    #[test]
    fn a_missing_parent_is_named() {
        let temp = TempDir::new("parent");
        let error = DataDirectory::create(&temp.path.join("a/b"), None, &|| true).unwrap_err().to_string();
        assert!(
            error.starts_with("cannot create the data directory '") && error.contains("a/b': No such file"),
            "{error}"
        );
    }

    #[test]
    fn a_template_is_copied_first_and_its_hosts_kept() {
        let temp = TempDir::new("template");
        let template = temp.path.join("template");
        fs::create_dir_all(template.join("hosts/relay")).unwrap();
        fs::write(template.join("hosts/relay/torrc"), "x").unwrap();
        std::os::unix::fs::symlink("relay/torrc", template.join("hosts/link")).unwrap();
        // The data directory may lie inside the template; it is not copied into itself.
        let data = DataDirectory::create(&template.join("run"), Some(&template), &|| true).unwrap();
        assert_eq!(fs::read_to_string(data.hosts_path().join("link")).unwrap(), "x");
        assert!(!data.path().join("run").exists());
        let relay = data.create_host("relay").unwrap();
        assert_eq!(fs::read_to_string(relay.path().join("torrc")).unwrap(), "x");
        let pipe = template.join("hosts/pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let error = DataDirectory::create(&temp.path.join("piped"), Some(&template), &|| true).unwrap_err().to_string();
        assert!(error.contains("hosts/pipe': it is no file, directory or link; remove it"), "{error}");
        fs::remove_file(pipe).unwrap();
        let error =
            DataDirectory::create(&temp.path.join("ended"), Some(&template), &|| false).unwrap_err().to_string();
        assert!(error.ends_with(": interrupted"), "{error}");
        let error =
            DataDirectory::create(&temp.path.join("other"), Some(&temp.path.join("none")), &|| true).unwrap_err();
        assert!(error.to_string().contains("template_directory"));
        assert!(!temp.path.join("other").exists(), "a bad template leaves nothing behind");
    }

    #[test]
    fn files_carry_the_known_names() {
        let temp = TempDir::new("names");
        let data = DataDirectory::create(&temp.path.join("run"), None, &|| true).unwrap();
        let host = data.create_host("client1").unwrap();
        assert_eq!(host.guest_file("curl", 1000, GuestFile::Stdout), host.path().join("curl.1000.stdout"));
        assert_eq!(host.guest_file("curl", 1001, GuestFile::Strace), host.path().join("curl.1001.strace"));
        assert_eq!(host.capture_file("eth0"), data.path().join("hosts/client1/eth0.pcap"));
        data.write_processed_config("general: {}\n").unwrap();
        assert_eq!(fs::read_to_string(data.path().join("processed-config.yaml")).unwrap(), "general: {}\n");
    }
}
