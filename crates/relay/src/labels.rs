//! What an experiment knows of its clients: a file that guards read, since a relay cannot know what its clients are up to.

use onion::link::private::Label;
use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

/// Reads lines `ADDRESS web` or `ADDRESS bulk`; what follows `#` is left out.
pub fn read(path: &Path) -> Result<BTreeMap<Ipv4Addr, Label>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut labels = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let (address, label) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let label = match label.trim() {
            "web" => Some(Label::Web),
            "bulk" => Some(Label::Bulk),
            _ => None,
        };
        let (Ok(address), Some(label)) = (address.parse(), label) else {
            return Err(format!("{}:{number}: '{line}': an IPv4 address and web or bulk are needed", path.display()));
        };
        labels.insert(address, label);
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_labels_and_mistakes_have_lines() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("labels");
        fs::write(&file, "# clients\n11.0.0.1 web\n\n11.0.0.2  bulk # loud\n").unwrap();
        let labels = read(&file).unwrap();
        assert_eq!(labels.len(), 2);
        assert_eq!(labels[&Ipv4Addr::new(11, 0, 0, 2)], Label::Bulk);
        fs::write(&file, "11.0.0.1 web\n11.0.0.2 loud\n").unwrap();
        let error = read(&file).unwrap_err();
        assert!(error.ends_with(":2: '11.0.0.2 loud': an IPv4 address and web or bulk are needed"), "{error}");
    }
}
