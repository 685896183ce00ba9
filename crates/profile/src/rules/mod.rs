//! Which functions belong together, which hosts have which role, and what the phases of a run are: one YAML file, or one that is supplied.
//!
//! See `docs/profiling.md` for the form. The innermost function of a stack that an entry fits decides its group.

mod pattern;
mod phases;

use crate::read::{Function, Kind, Profile};
use crate::yaml::{self, Node};
pub(crate) use pattern::Pattern;
pub(crate) use phases::{Phase, Span};
use report::{Error, Result};
use std::path::Path;

/// The rules that are supplied, by name.
pub const SUPPLIED: [(&str, &str); 2] = [("ipv8", include_str!("ipv8.yaml")), ("tor", include_str!("tor.yaml"))];

/// What no entry fits.
pub const UNASSIGNED: &str = "unassigned";

/// An entry of `groups`: a function fits if each list that the entry has has a pattern that fits.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    group: usize,
    function: Vec<Pattern>,
    module: Vec<Pattern>,
    file: Vec<Pattern>,
    call: Vec<Pattern>,
}

impl Entry {
    fn fits(&self, function: &Function) -> bool {
        let any = |patterns: &[Pattern], text: &str| patterns.is_empty() || patterns.iter().any(|one| one.fits(text));
        let is_call = function.kind == Kind::Call;
        if is_call == self.call.is_empty() {
            return false;
        }
        match is_call {
            true => any(&self.call, &function.name),
            false => {
                any(&self.function, &function.name)
                    && any(&self.module, &function.module)
                    && any(&self.file, &function.file)
            }
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// Names of groups, in order.
    pub groups: Vec<String>,
    entries: Vec<Entry>,
    /// Names of roles, with the patterns of their hosts.
    roles: Vec<(String, Vec<Pattern>)>,
    pub(crate) phases: Vec<Phase>,
}

impl Rules {
    /// Supplied rules by their name, or a file's.
    ///
    /// # Errors
    /// When there is no such file, or it is wrong: where, and what to do.
    pub fn load(name: &str) -> Result<Rules> {
        if let Some((name, text)) = SUPPLIED.iter().find(|(known, _)| *known == name) {
            return Rules::parse(name, text);
        }
        let path = Path::new(name);
        let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                let known: Vec<&str> = SUPPLIED.iter().map(|(name, _)| *name).collect();
                Error::Input(format!("{name}: no such file; supplied rules are called {}", known.join(" and ")))
            }
            _ => Error::io("read", path, error),
        })?;
        Rules::parse(name, &text)
    }

    /// Reads rules; `name` is what messages call the text.
    ///
    /// # Errors
    /// Where the text is wrong, and what to do.
    pub fn parse(name: &str, text: &str) -> Result<Rules> {
        let root = yaml::parse(name, text, "'groups', 'roles' or 'phases'")?;
        let mut rules = Rules::default();
        let mut supplied_roles = Vec::new();
        for (key, value) in root.map(&["use", "groups", "roles", "phases"])? {
            match key.text {
                "use" => {
                    let supplied = value.text()?;
                    let known = SUPPLIED.iter().find(|(name, _)| *name == supplied);
                    let Some((name, text)) = known else {
                        return Err(
                            value.wrong("no supplied rules are called so: use 'ipv8' or 'tor', or leave it out")
                        );
                    };
                    let mut used = Rules::parse(name, text)?;
                    // Own groups come first.
                    let shift = rules.groups.len();
                    used.entries.iter_mut().for_each(|entry| entry.group += shift);
                    supplied_roles.append(&mut used.roles);
                    rules.groups.append(&mut used.groups);
                    rules.entries.append(&mut used.entries);
                }
                "groups" => rules.add_groups(&value)?,
                "roles" => {
                    for (role, hosts) in value.map(&[])? {
                        rules.roles.push((role.text.to_owned(), patterns(&hosts)?));
                    }
                }
                _ => {
                    for phase in value.list()? {
                        rules.phases.push(Phase::read(&phase)?);
                    }
                }
            }
        }
        // Own roles come first, too.
        rules.roles.append(&mut supplied_roles);
        rules.merge_groups();
        Ok(rules)
    }

    fn add_groups(&mut self, list: &Node<'_>) -> Result<()> {
        let mut own = Rules::default();
        for node in list.list()? {
            let mut entry = Entry { group: 0, function: vec![], module: vec![], file: vec![], call: vec![] };
            let mut name = None;
            for (key, value) in node.map(&["name", "function", "module", "file", "call"])? {
                match key.text {
                    "name" => name = Some(value.text()?.to_owned()),
                    "function" => entry.function = patterns(&value)?,
                    "module" => entry.module = patterns(&value)?,
                    "file" => entry.file = patterns(&value)?,
                    _ => entry.call = patterns(&value)?,
                }
            }
            let Some(name) = name else {
                return Err(node.wrong("an entry of 'groups' needs a 'name': the group that its functions belong to"));
            };
            let has_functions = !(entry.function.is_empty() && entry.module.is_empty() && entry.file.is_empty());
            if entry.call.is_empty() && !has_functions {
                return Err(node.wrong("the entry fits nothing: give it 'function', 'module', 'file' or 'call'"));
            }
            if !entry.call.is_empty() && has_functions {
                return Err(node
                    .wrong("'call' stands alone: make an entry of the same name for 'function', 'module' and 'file'"));
            }
            entry.group = own.groups.len();
            own.groups.push(name);
            own.entries.push(entry);
        }
        // Before those of `use`, wherever that stands.
        let shift = own.groups.len();
        self.entries.iter_mut().for_each(|entry| entry.group += shift);
        own.groups.append(&mut self.groups);
        own.entries.append(&mut self.entries);
        (self.groups, self.entries) = (own.groups, own.entries);
        Ok(())
    }

    /// Several entries of one name are one group.
    fn merge_groups(&mut self) {
        let mut names: Vec<String> = Vec::new();
        let places: Vec<usize> = self
            .groups
            .iter()
            .map(|name| match names.iter().position(|known| known == name) {
                Some(place) => place,
                None => {
                    names.push(name.clone());
                    names.len() - 1
                }
            })
            .collect();
        self.entries.iter_mut().for_each(|entry| entry.group = places[entry.group]);
        self.groups = names;
    }

    /// The group of each stack of a profile; the number of groups where none fits.
    pub fn groups_of(&self, profile: &Profile) -> Vec<usize> {
        let of_function: Vec<Option<usize>> =
            profile.functions.iter().map(|function| self.group_of(function)).collect();
        let of_stack = |stack: &Vec<u32>| stack.iter().rev().find_map(|id| of_function[*id as usize]);
        profile.stacks.iter().map(|stack| of_stack(stack).unwrap_or(self.groups.len())).collect()
    }

    fn group_of(&self, function: &Function) -> Option<usize> {
        if function.kind == Kind::Simulator {
            return None;
        }
        self.entries.iter().find(|entry| entry.fits(function)).map(|entry| entry.group)
    }

    /// The role of a host: the first that names it; none where there are no roles or none names it.
    pub fn role_of(&self, host: &str) -> Option<&str> {
        self.roles
            .iter()
            .find(|(_, hosts)| hosts.iter().any(|pattern| pattern.fits(host)))
            .map(|(role, _)| role.as_str())
    }

    /// Whether phases begin or end with lines that guests print.
    pub(crate) fn needs_lines(&self) -> bool {
        self.phases.iter().any(Phase::needs_lines)
    }

    pub fn has_roles(&self) -> bool {
        !self.roles.is_empty()
    }
}

/// One pattern, or a list of them.
fn patterns(node: &Node<'_>) -> Result<Vec<Pattern>> {
    let nodes = if node.is_list() { node.list()? } else { vec![node.clone()] };
    let patterns: Vec<Pattern> = nodes.iter().map(|node| node.text().map(Pattern::new)).collect::<Result<_>>()?;
    if patterns.is_empty() {
        return Err(node.wrong("an empty list fits nothing: leave the key out, or write '*' for everything"));
    }
    Ok(patterns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(kind: Kind, name: &str, module: &str) -> Function {
        Function { kind, name: name.to_owned(), module: module.to_owned(), file: String::new(), line: 0 }
    }

    fn profile(stacks: &[&[Function]]) -> Profile {
        let mut profile = Profile::default();
        for stack in stacks {
            let first = profile.functions.len() as u32;
            profile.functions.extend_from_slice(stack);
            profile.stacks.push((first..first + stack.len() as u32).collect());
        }
        profile
    }

    #[test]
    fn the_innermost_function_that_fits_decides() {
        let rules = Rules::parse(
            "r",
            "groups:\n- {name: crypto, module: 'libcrypto*'}\n- {name: net, function: [send_*, recv_*]}\n- {name: calls, call: '*'}\n",
        )
        .unwrap();
        let native = |name, module| function(Kind::Native, name, module);
        let profile = profile(&[
            &[native("send_cell", "tor"), native("AES", "libcrypto.so.3"), native("memcpy", "libc.so.6")],
            &[native("AES", "libcrypto.so.3"), native("send_cell", "tor")],
            &[native("main", "tor")],
            &[
                native("send_cell", "tor"),
                function(Kind::Call, "sendto", "system call"),
                function(Kind::Simulator, "send_x", "gnomon"),
            ],
        ]);
        assert_eq!(rules.groups, ["crypto", "net", "calls"]);
        assert_eq!(rules.groups_of(&profile), [0, 1, 3, 2]);
    }

    #[test]
    fn own_groups_come_before_supplied_ones_and_roles_name_hosts() {
        let rules = Rules::parse(
            "r",
            "use: tor\ngroups:\n- {name: mine, function: x}\nroles:\n  relay: [relay*, guard?]\n  rest: '*'\n",
        )
        .unwrap();
        assert_eq!(rules.groups[0], "mine");
        assert!(rules.groups.len() > 5, "{:?}", rules.groups);
        assert_eq!([rules.role_of("guard1"), rules.role_of("guard12")], [Some("relay"), Some("rest")]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place_and_a_remedy() {
        let error = |text: &str| Rules::parse("my.yaml", text).unwrap_err().to_string();
        assert!(
            error("groups:\n- {nam: x}\n").starts_with("my.yaml:2:4: 'nam' is not known here"),
            "{}",
            error("groups:\n- {nam: x}\n")
        );
        assert!(error("groups:\n- {function: x}\n").contains("my.yaml:2:3: an entry of 'groups' needs a 'name'"));
        assert!(error("groups:\n- {name: x}\n").contains("fits nothing"));
        assert!(error("groups: 7\n").contains("my.yaml:1:9: a list is needed here"));
        assert!(error("use: torr\n").contains("my.yaml:1:6: no supplied rules are called so"));
        assert!(error("roles: [a]\n").contains("my.yaml:1:8"));
        assert!(error("groups: [\n").starts_with("my.yaml:"));
        assert!(error("phases:\n- {name: x, from: 3 parsecs}\n").contains("my.yaml:2:19"));
        assert!(
            Rules::load("nowhere.yaml").unwrap_err().to_string().contains("supplied rules are called ipv8 and tor")
        );
    }

    #[test]
    fn supplied_rules_are_right() {
        for (name, _) in SUPPLIED {
            assert!(!Rules::load(name).unwrap().groups.is_empty());
        }
    }
}
