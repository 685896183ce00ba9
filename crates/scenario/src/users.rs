//! Users of the machine, by the names that experiments give: passwd(5), group(5).

use std::path::Path;

/// Who executes a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserPlan {
    /// As written: a name, or a number.
    pub written: String,
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups, the user's own among them.
    pub groups: Vec<u32>,
    pub home: String,
    pub shell: String,
}

/// Finds a user by name or number in `/etc/passwd` and its groups in `/etc/group`. A number that nobody has stands for a user without a name, whose
/// group has the same number. The error says what is wrong and what to do.
pub(crate) fn find(written: &str) -> Result<UserPlan, String> {
    let read = |file: &str| std::fs::read(Path::new(file)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let passwd = read("/etc/passwd").map_err(|error| format!("cannot read /etc/passwd: {error}"))?;
    let group = read("/etc/group").unwrap_or_default();
    find_in(written, &passwd, &group)
}

fn find_in(written: &str, passwd: &str, group: &str) -> Result<UserPlan, String> {
    let number: Option<u32> = written.parse().ok();
    let users: Vec<Vec<&str>> = passwd.lines().map(|line| line.split(':').collect()).collect();
    let known = users.iter().filter(|fields| fields.len() >= 7).find_map(|fields| {
        let (uid, gid) = (fields[2].parse().ok()?, fields[3].parse().ok()?);
        let meant = fields[0] == written || number == Some(uid);
        meant.then(|| (fields[0], uid, gid, fields[5], fields[6]))
    });
    let (name, uid, gid, home, shell) = match (known, number) {
        (Some(known), _) => known,
        (None, Some(number)) if number < u32::MAX => (written, number, number, "/", "/bin/sh"),
        _ => {
            let names = users.iter().map(|fields| fields[0]).filter(|name| !name.is_empty());
            let remedy = crate::suggest::remedy(written, names);
            return Err(format!("'{written}' is neither a number nor a user of /etc/passwd{remedy}"));
        }
    };
    Ok(UserPlan {
        written: written.to_owned(),
        name: name.to_owned(),
        uid,
        gid,
        groups: groups_of(name, gid, group),
        home: home.to_owned(),
        shell: shell.to_owned(),
    })
}

/// The groups that name a user as a member, and its own.
fn groups_of(user: &str, own: u32, group: &str) -> Vec<u32> {
    let member = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let [_, _, gid, members] = fields[..] else { return None };
        members.split(',').any(|name| name == user).then(|| gid.parse().ok()).flatten()
    };
    let mut groups: Vec<u32> = group.lines().filter_map(member).chain([own]).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/bash\npostgres:x:101:104:,,,:/var/lib/postgresql:/bin/bash\nbroken\n";
    const GROUP: &str = "root:x:0:\nssl-cert:x:103:postgres,web\npostgres:x:104:\nweb:x:7:web\n";

    #[test]
    fn users_are_found_by_name_and_number() {
        let user = find_in("postgres", PASSWD, GROUP).unwrap();
        assert_eq!((user.uid, user.gid, user.groups.as_slice()), (101, 104, &[103, 104][..]));
        assert_eq!(user.home, "/var/lib/postgresql");
        assert_eq!(find_in("101", PASSWD, GROUP).unwrap().name, "postgres");
        let nobody = find_in("4711", PASSWD, GROUP).unwrap();
        assert_eq!((nobody.uid, nobody.gid, nobody.groups.as_slice()), (4711, 4711, &[4711][..]));
    }

    #[test]
    fn a_wrong_name_is_told_with_a_remedy() {
        let error = find_in("postgers", PASSWD, GROUP).unwrap_err();
        assert!(
            error.starts_with("'postgers' is neither a number nor a user of /etc/passwd")
                && error.contains("'postgres'"),
            "{error}"
        );
        assert!(find_in("", PASSWD, GROUP).is_err());
    }
}
