//! What NETLINK_GENERIC answers (genetlink): its controller, by which programs look for families, and which is the only one here.

use super::netlink_frame::{Reply, attribute, attributes};
use linux_abi::Errno;
use linux_abi::net::{NLM_F_DUMP, NLM_F_MULTI, Nlmsghdr};

/// The family of the controller, and its name.
const CONTROLLER: u16 = 16;
const NAME: &[u8] = b"nlctrl\0";
/// Bytes of `struct genlmsghdr`: command, version, and two that are reserved.
const HEADER: usize = 4;
const VERSION: u8 = 2;

const CTRL_CMD_NEWFAMILY: u8 = 1;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_CMD_GETPOLICY: u8 = 10;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const CTRL_ATTR_VERSION: u16 = 3;
const CTRL_ATTR_HDRSIZE: u16 = 4;
const CTRL_ATTR_MAXATTR: u16 = 5;
const CTRL_ATTR_OPS: u16 = 6;
const CTRL_ATTR_MCAST_GROUPS: u16 = 7;
/// In the two lists above: a number, then flags or a name.
const OP_ID: u16 = 1;
const OP_FLAGS: u16 = 2;
const GROUP_NAME: u16 = 1;
const GROUP_ID: u16 = 2;
/// What the controller's two operations may do: be asked for one thing or for all, with attributes that are checked.
const FLAGS_GETFAMILY: u32 = 0xe;
const FLAGS_GETPOLICY: u32 = 0xc;
const ATTRIBUTES_MAX: u32 = 10;

/// The messages that answer a request. ENOENT for families that there are not, EINVAL, EOPNOTSUPP.
pub(super) fn answer(reply: Reply, header: &Nlmsghdr, body: &[u8]) -> Result<Vec<u8>, Errno> {
    if header.nlmsg_type != CONTROLLER {
        return Err(Errno::ENOENT);
    }
    let (fixed, rest) = body.split_at_checked(HEADER).ok_or(Errno::EINVAL)?;
    if fixed[0] != CTRL_CMD_GETFAMILY {
        return Err(Errno::EOPNOTSUPP);
    }
    let mut out = Vec::new();
    if header.nlmsg_flags & NLM_F_DUMP != 0 {
        controller(reply, &mut out, NLM_F_MULTI);
        return Ok(out);
    }
    let asked = |kind: u16| attributes(rest).find(|(found, _)| *found == kind).map(|(_, data)| data);
    let known = match (asked(CTRL_ATTR_FAMILY_ID), asked(CTRL_ATTR_FAMILY_NAME)) {
        (None, None) => return Err(Errno::EINVAL),
        (Some(id), None) => id.get(..2) == Some(&CONTROLLER.to_ne_bytes()),
        (_, Some(name)) => name.split(|&byte| byte == 0).next() == NAME.strip_suffix(&[0]),
    };
    if !known {
        return Err(Errno::ENOENT);
    }
    controller(reply, &mut out, 0);
    Ok(out)
}

/// `ctrl_fill_info`.
fn controller(reply: Reply, out: &mut Vec<u8>, flags: u16) {
    let start = reply.message(out, CONTROLLER, flags, &[CTRL_CMD_NEWFAMILY, VERSION, 0, 0]);
    attribute(out, start, CTRL_ATTR_FAMILY_NAME, NAME);
    attribute(out, start, CTRL_ATTR_FAMILY_ID, &CONTROLLER.to_ne_bytes());
    attribute(out, start, CTRL_ATTR_VERSION, &u32::from(VERSION).to_ne_bytes());
    attribute(out, start, CTRL_ATTR_HDRSIZE, &0u32.to_ne_bytes());
    attribute(out, start, CTRL_ATTR_MAXATTR, &ATTRIBUTES_MAX.to_ne_bytes());
    let operation = |id: u8, flags: u32| {
        [nested(OP_ID, &u32::from(id).to_ne_bytes()), nested(OP_FLAGS, &flags.to_ne_bytes())].concat()
    };
    let operations = [
        nested(1, &operation(CTRL_CMD_GETFAMILY, FLAGS_GETFAMILY)),
        nested(2, &operation(CTRL_CMD_GETPOLICY, FLAGS_GETPOLICY)),
    ];
    attribute(out, start, CTRL_ATTR_OPS, &operations.concat());
    let group = [nested(GROUP_ID, &u32::from(CONTROLLER).to_ne_bytes()), nested(GROUP_NAME, b"notify\0")].concat();
    attribute(out, start, CTRL_ATTR_MCAST_GROUPS, &nested(1, &group));
}

/// An attribute by itself, to lie in another one.
fn nested(kind: u16, data: &[u8]) -> Vec<u8> {
    let mut out = ((data.len() + 4) as u16).to_ne_bytes().to_vec();
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

#[cfg(test)]
mod tests {
    use super::super::netlink_frame::{self, Style};
    use super::*;

    fn ask(kind: u16, flags: u16, attributes: &[u8]) -> Vec<u8> {
        let reply = Reply { seq: 1, port: 0 };
        let mut request = Vec::new();
        let body = [&[CTRL_CMD_GETFAMILY, 1, 0, 0][..], attributes].concat();
        reply.message(&mut request, kind, 1 | flags, &body);
        let style = Style { port: 9, short_errors: false, busy: false, is_list: netlink_frame::has_dump_flag };
        netlink_frame::answer(&request, style, answer).remove(0).bytes
    }

    #[test]
    fn the_controller_is_found_by_name_and_number_and_nothing_else() {
        let by_name = ask(CONTROLLER, 0, &nested(CTRL_ATTR_FAMILY_NAME, NAME));
        assert_eq!((by_name.len(), by_name[4]), (136, 16));
        let by_number = ask(CONTROLLER, 0, &nested(CTRL_ATTR_FAMILY_ID, &CONTROLLER.to_ne_bytes()));
        assert_eq!(by_number, by_name);
        let number_of = |reply: &[u8]| i32::from_ne_bytes(*reply[16..].first_chunk().unwrap());
        let other = ask(CONTROLLER, 0, &nested(CTRL_ATTR_FAMILY_NAME, b"nl80211\0"));
        assert_eq!((other[4], number_of(&other)), (2, -Errno::ENOENT.raw()));
        assert_eq!(number_of(&ask(500, 0, &[])), -Errno::ENOENT.raw());
        assert_eq!(number_of(&ask(CONTROLLER, 0, &[])), -Errno::EINVAL.raw());
    }
}
