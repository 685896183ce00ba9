//! What a client and a relay agree on within ntor-v3's messages (tor-spec, "Additional data with ntor-v3"; proposal 324, section 10.3):
//! fields with a number each, of which those that nobody knows are passed over.

/// A client wants congestion control; the field is empty.
const CONGESTION_CONTROL_REQUEST: u8 = 1;
/// The relay agrees; the field is the number of cells that a SENDME allows again.
const CONGESTION_CONTROL_RESPONSE: u8 = 2;

/// How many times as many cells, or how many times fewer, a SENDME of a relay may allow than the consensus says (proposal 324,
/// section 10.3).
const FACTOR: u32 = 2;

/// What a client asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub congestion_control: bool,
}

impl Request {
    /// Reads a client's message; nothing if it is none, in which case the circuit is refused.
    pub fn read(message: &[u8]) -> Option<Request> {
        let mut request = Request::default();
        for (kind, _) in fields(message)? {
            request.congestion_control |= kind == CONGESTION_CONTROL_REQUEST;
        }
        Some(request)
    }

    pub fn write(self) -> Vec<u8> {
        if self.congestion_control { vec![1, CONGESTION_CONTROL_REQUEST, 0] } else { vec![0] }
    }
}

/// What a relay answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// Cells that each SENDME of the circuit allows again, if there is to be congestion control.
    pub sendme_inc: Option<u8>,
}

impl Response {
    pub fn write(self) -> Vec<u8> {
        self.sendme_inc.map_or(vec![0], |sendme_inc| vec![1, CONGESTION_CONTROL_RESPONSE, 1, sendme_inc])
    }

    /// Reads a relay's message, whose SENDMEs must allow within a factor of two as many cells as the consensus says; nothing if it is
    /// none or they do not.
    pub fn read(message: &[u8], consensus_sendme_inc: u8) -> Option<Response> {
        let found = fields(message)?.into_iter().find(|(kind, _)| *kind == CONGESTION_CONTROL_RESPONSE);
        let Some((_, value)) = found else { return Some(Response::default()) };
        let sendme_inc = *value.first()?;
        let (ours, theirs) = (u32::from(consensus_sendme_inc), u32::from(sendme_inc));
        if theirs == 0 || theirs > FACTOR * ours || theirs < ours / FACTOR {
            return None;
        }
        Some(Response { sendme_inc: Some(sendme_inc) })
    }
}

/// How many fields, then of each its number, length and bytes.
fn fields(message: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let (count, mut rest) = message.split_first()?;
    let mut fields = Vec::new();
    for _ in 0..*count {
        let ([kind, length], behind) = rest.split_first_chunk()?;
        let (value, behind) = behind.split_at_checked(usize::from(*length))?;
        fields.push((*kind, value));
        rest = behind;
    }
    Some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_field_without_bytes() {
        let request = Request { congestion_control: true };
        assert_eq!(request.write(), [1, 1, 0]);
        assert_eq!(Request::read(&[1, 1, 0]), Some(request));
        assert_eq!(Request::read(&[0]), Some(Request::default()));
        // Behind another one that nobody knows.
        assert_eq!(Request::read(&[2, 77, 2, 9, 9, 1, 0]), Some(request));
        assert_eq!(Request::read(&[1, 77, 0]), Some(Request::default()));
    }

    #[test]
    fn fields_beyond_a_messages_end_are_refused() {
        for wrong in [&[][..], &[1], &[1, 1], &[1, 1, 1], &[2, 1, 0]] {
            assert_eq!(Request::read(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_response_says_how_many_cells_a_sendme_allows() {
        let response = Response { sendme_inc: Some(31) };
        assert_eq!(response.write(), [1, 2, 1, 31]);
        assert_eq!(Response::read(&[1, 2, 1, 31], 31), Some(response));
        assert_eq!(Response::read(&Response::default().write(), 31), Some(Response::default()));
        let allowed: Vec<u8> = (0..=255).filter(|count| Response::read(&[1, 2, 1, *count], 31).is_some()).collect();
        assert_eq!((allowed.first(), allowed.last(), allowed.len()), (Some(&15), Some(&62), 48));
        assert_eq!(Response::read(&[1, 2, 0], 31), None);
    }
}
