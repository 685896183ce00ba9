//! What rewriting put into an image, and what lay there before. A program may copy its code, and execute the copy: there, a jump into the
//! sled leads nowhere, and what it stands for has to be put back. Copies are recognised by the bytes of such jumps, and by what lies around.

use super::rewrite::TRAP;
use super::sled::JUMP_BYTES;

/// `jmp` with a displacement of four bytes, and of one.
const JUMP: u8 = 0xe9;
const HOP: u8 = 0xeb;
/// So many equal bytes beside a patch are no accident.
const CERTAIN: usize = 8;
/// As many beside a jump that leads to no code, and beside one that does, so that it may be the program's own.
const LIKELY: usize = 2;
const LIKELY_TO_CODE: usize = 3;

/// All patches of an image.
#[derive(Debug, Default)]
pub(crate) struct Patches {
    /// By address.
    places: Vec<Place>,
    /// What lay at all of them, one behind the other.
    originals: Vec<u8>,
    /// Displacements of jumps in order, with the indices of their places.
    jumps: Vec<(u32, u32)>,
    /// The same with the first bytes of the others.
    others: Vec<(u64, u32)>,
}

/// Where a patch lies, relative to the image, and its part of the originals.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: u64,
    original: u32,
    length: u16,
}

impl Patches {
    /// Notes what lies at `at` before it is replaced.
    pub(super) fn add(&mut self, at: u64, original: &[u8]) {
        let place = Place { at, original: self.originals.len() as u32, length: original.len() as u16 };
        self.places.push(place);
        self.originals.extend_from_slice(original);
    }

    /// Makes them ready to be looked up: `memory` is the image as it has become.
    pub(super) fn finish(&mut self, memory: &[u8]) {
        self.places.sort_unstable_by_key(|place| place.at);
        self.places.shrink_to_fit();
        self.originals.shrink_to_fit();
        for (index, place) in self.places.iter().enumerate() {
            let code = &memory[place.at as usize..];
            match Beginning::of(code) {
                Some(Beginning::Jump(displacement)) => self.jumps.push((displacement, index as u32)),
                Some(Beginning::Other(bytes)) => self.others.push((bytes, index as u32)),
                None => {}
            }
        }
        self.jumps.sort_unstable();
        self.others.sort_unstable();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The least and the largest displacement of its jumps.
    pub(super) fn displacements(&self) -> Option<(u32, u32)> {
        Some((self.jumps.first()?.0, self.jumps.last()?.0))
    }

    /// Where the image has patches that begin so.
    fn like(&self, beginning: Beginning) -> Vec<Place> {
        let place = |index: u32| self.places[index as usize];
        match beginning {
            Beginning::Jump(displacement) => equal(&self.jumps, displacement).map(place).collect(),
            Beginning::Other(bytes) => equal(&self.others, bytes).map(place).collect(),
        }
    }

    /// Those of which something lies in [from, to).
    fn within(&self, from: u64, to: u64) -> &[Place] {
        let first = self.places.partition_point(|place| place.at + u64::from(place.length) <= from);
        let behind = self.places.partition_point(|place| place.at < to);
        &self.places[first..behind.max(first)]
    }

    fn original(&self, place: &Place) -> &[u8] {
        &self.originals[place.original as usize..][..place.length.into()]
    }

    /// Stretches of `code` that are equal to the image's around a patch that may lie at a candidate. `read` gives the image's bytes from an
    /// address on.
    pub(super) fn copies_around(
        &self,
        code: &[u8],
        candidate: Candidate,
        read: impl Fn(u64, &mut [u8]) -> bool,
    ) -> Vec<Copied<'_>> {
        let like = self.like(candidate.beginning).into_iter();
        like.filter_map(|patch| Copied::around(self, code, candidate, patch, &read)).collect()
    }
}

/// A stretch of code that was copied out of an image, after that was rewritten.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copied<'a> {
    patches: &'a Patches,
    /// Its bounds, as offsets in the code.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Where it comes from in the image.
    origin: u64,
    /// The patch by which it was found, and its offset.
    patch: Place,
    at: usize,
    is_jump: bool,
}

impl<'a> Copied<'a> {
    fn around(
        patches: &'a Patches,
        code: &[u8],
        candidate: Candidate,
        patch: Place,
        read: impl Fn(u64, &mut [u8]) -> bool,
    ) -> Option<Copied<'a>> {
        let Candidate { at, beginning } = candidate;
        let first = at - patch.at.min(at as u64) as usize;
        let start = patch.at - (at - first) as u64;
        let mut image = vec![0; code.len() - first];
        if !read(start, &mut image) {
            return None;
        }
        let pairs = || code[first..].iter().zip(&image);
        let before = pairs().take(at - first).rev().take_while(|(one, other)| one == other).count();
        let behind = pairs().skip(at - first).take_while(|(one, other)| one == other).count();
        let (from, to) = (at - before, at + behind);
        let is_jump = matches!(beginning, Beginning::Jump(_));
        Some(Copied { patches, from, to, origin: patch.at - before as u64, patch, at, is_jump })
    }

    /// How many bytes are equal.
    pub(crate) fn length(&self) -> usize {
        self.to - self.from
    }

    /// Whether it is no accident. `leads_to_code`: whether the jump that was found does, from where it lies, so that it may be the
    /// program's own.
    pub(crate) fn is_likely(&self, leads_to_code: bool) -> bool {
        let length = usize::from(self.patch.length);
        let is_whole = self.to - self.at >= length;
        if !self.is_jump {
            // Fillers alone say nothing.
            return is_whole && self.length() - length >= CERTAIN;
        }
        let beside = self.length() - JUMP_BYTES;
        beside >= CERTAIN || (is_whole && beside >= if leads_to_code { LIKELY_TO_CODE } else { LIKELY })
    }

    /// What lay at its patches, with their offsets in the code. Of a jump at the end of which a part was not copied, as much as was.
    pub(crate) fn originals(&self) -> impl Iterator<Item = (usize, &'a [u8])> + use<'a> {
        let Copied { patches, from, to, origin, .. } = *self;
        let end = origin + (to - from) as u64;
        patches.within(origin, end).iter().filter_map(move |place| {
            let offset = from + place.at.checked_sub(origin)? as usize;
            let original = patches.original(place);
            let copied = original.len().min(to - offset);
            (copied == original.len() || copied >= JUMP_BYTES).then(|| (offset, &original[..copied]))
        })
    }

    /// Whether another would put back the same.
    pub(crate) fn is_as_good_as(&self, other: &Copied) -> bool {
        self.originals().eq(other.originals())
    }
}

/// How a patch begins.
#[derive(Clone, Copy, Debug)]
enum Beginning {
    /// With a jump of this displacement.
    Jump(u32),
    /// With a short jump or a filler, and what follows.
    Other(u64),
}

impl Beginning {
    fn of(code: &[u8]) -> Option<Beginning> {
        match code {
            [JUMP, rest @ ..] => Some(Beginning::Jump(u32::from_le_bytes(*rest.first_chunk()?))),
            [HOP, _, TRAP, ..] | [TRAP, TRAP, ..] => Some(Beginning::Other(u64::from_le_bytes(*code.first_chunk()?))),
            _ => None,
        }
    }
}

/// A place in code at which a patch may have been copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// As an offset.
    pub(crate) at: usize,
    beginning: Beginning,
}

impl Candidate {
    /// All of them, in order, the displacements of whose jumps lie within bounds.
    pub(crate) fn all(code: &[u8], bounds: (u32, u32)) -> Vec<Candidate> {
        // Many chunks have none: to look at a whole one takes no longer than at a few bytes.
        const CHUNK: usize = 32;
        let mut found = Vec::new();
        for (index, chunk) in code.chunks(CHUNK).enumerate() {
            if !chunk.iter().fold(false, |any, byte| any | is_first(*byte)) {
                continue;
            }
            let start = index * CHUNK;
            // Of fillers in a row, with which some compilers end their code, only the first one begins something.
            let continues = |at: usize| code[at] == TRAP && at > 0 && code[at - 1] == TRAP;
            let places = (start..start + chunk.len()).filter(|at| is_first(code[*at]) && !continues(*at));
            let all = places.filter_map(|at| Some(Candidate { at, beginning: Beginning::of(&code[at..])? }));
            found.extend(all.filter(|one| one.is_within(bounds)));
        }
        found
    }

    fn is_within(&self, (least, most): (u32, u32)) -> bool {
        match self.beginning {
            Beginning::Jump(displacement) => displacement >= least && displacement <= most,
            Beginning::Other(_) => true,
        }
    }

    /// Where its jump leads, if it is one, in code that lies at `begin`.
    pub(crate) fn target(&self, begin: u64) -> Option<u64> {
        let Beginning::Jump(displacement) = self.beginning else { return None };
        let behind = begin.wrapping_add((self.at + JUMP_BYTES) as u64);
        Some(behind.wrapping_add_signed(i64::from(displacement as i32)))
    }
}

fn is_first(byte: u8) -> bool {
    byte == JUMP || byte == HOP || byte == TRAP
}

/// What a sorted list has for a key.
fn equal<K: Ord + Copy>(list: &[(K, u32)], key: K) -> impl Iterator<Item = u32> {
    let (first, last) = (list.first(), list.last());
    let may_be = first.is_some_and(|(first, _)| *first <= key) && last.is_some_and(|(last, _)| *last >= key);
    let from = if may_be { list.partition_point(|(other, _)| *other < key) } else { list.len() };
    list[from..].iter().take_while(move |(other, _)| *other == key).map(|(_, index)| *index)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: (u32, u32) = (0, u32::MAX);
    /// `jmp` by 0x12345 with two fillers, `jmp` by 4 with a filler, two fillers alone; each among bytes of its own.
    const JUMP_AWAY: [u8; 7] = [JUMP, 0x45, 0x23, 0x01, 0, TRAP, TRAP];
    const HOP_AWAY: [u8; 3] = [HOP, 4, TRAP];

    /// An image of 64 bytes with patches at 8 and 40 (jumps), 20 (a short one), and 30 (fillers), which were 0xa1, 0xa2 and so on.
    fn image() -> (Vec<u8>, Patches) {
        let mut memory: Vec<u8> = (0..64).collect();
        let mut patches = Patches::default();
        let parts = [(8, &JUMP_AWAY[..]), (40, &JUMP_AWAY[..]), (20, &HOP_AWAY[..]), (30, &[TRAP, TRAP])];
        for (index, (at, patch)) in parts.into_iter().enumerate() {
            patches.add(at as u64, &vec![0xa1 + index as u8; patch.len()]);
            memory[at..at + patch.len()].copy_from_slice(patch);
        }
        patches.finish(&memory);
        (memory, patches)
    }

    /// The longest copy at the first candidate from an offset on, and how many there are.
    fn longest<'a>(memory: &[u8], patches: &'a Patches, code: &[u8], from: usize) -> (Option<Copied<'a>>, usize) {
        let read = |at: u64, bytes: &mut [u8]| {
            let rest = &memory[at as usize..];
            let length = bytes.len().min(rest.len());
            bytes[..length].copy_from_slice(&rest[..length]);
            true
        };
        let candidate = Candidate::all(code, ANY).into_iter().find(|one| one.at >= from).expect("a candidate");
        let copies = patches.copies_around(code, candidate, read);
        (copies.iter().max_by_key(|copied| copied.length()).copied(), copies.len())
    }

    #[test]
    fn all_patches_of_what_was_copied_are_found_by_one() {
        let (memory, patches) = image();
        let code = [&[0x90; 5][..], &memory[2..50], &[0x90; 30]].concat();
        let (copied, count) = longest(&memory, &patches, &code, 0);
        let copied = copied.unwrap();
        assert_eq!((copied.from, copied.to, count), (5, 53, 2));
        assert!(copied.is_likely(true));
        let originals: Vec<(usize, u8, usize)> =
            copied.originals().map(|(at, original)| (at, original[0], original.len())).collect();
        assert_eq!(originals, [(11, 0xa1, 7), (23, 0xa3, 3), (33, 0xa4, 2), (43, 0xa2, 7)]);
    }

    #[test]
    fn what_lies_around_decides_between_equal_jumps() {
        let (memory, patches) = image();
        for (from, to, original) in [(6, 16, 0xa1), (38, 48, 0xa2), (8, 16, 0xa1), (39, 47, 0xa2)] {
            let code = [&[0; 5][..], &memory[from..to], &[0; 30]].concat();
            let copied = longest(&memory, &patches, &code, 0).0.unwrap();
            assert_eq!(copied.originals().next().unwrap().1, [original; 7], "{from}");
        }
        let code = [&[0x90; 5][..], &JUMP_AWAY, &[0x90; 30]].concat();
        let candidate = Candidate::all(&code, ANY)[0];
        let both = patches.copies_around(&code, candidate, |at, bytes| {
            bytes.copy_from_slice(&[&memory[at as usize..], &[0; 64]].concat()[..bytes.len()]);
            true
        });
        assert!(both.len() == 2 && both[0].length() == both[1].length() && !both[0].is_as_good_as(&both[1]));
        assert!(both[0].is_likely(false) && !both[0].is_likely(true), "the fillers alone");
    }

    #[test]
    fn little_is_no_copy() {
        let (memory, patches) = image();
        // The jump with one of its fillers, and with what lies before it in the image.
        for (from, is_likely) in [(8, false), (4, false), (0, true)] {
            let code = [&[0x90; 9][..], &memory[from..14], &[0x90; 30]].concat();
            let copied = longest(&memory, &patches, &code, 0).0.unwrap();
            assert_eq!(copied.is_likely(false), is_likely, "{from}");
            assert_eq!(copied.originals().next().unwrap().1.len(), 6);
        }
        // The short jump is looked up with what lies behind it, the fillers too.
        for (at, before, is_likely) in [(20, 0, false), (20, 3, true), (30, 0, false), (30, 2, true)] {
            let code = [&[0x90; 9][..], &memory[at - before..at + 8], &[0x90; 30]].concat();
            let (copied, count) = longest(&memory, &patches, &code, 0);
            assert_eq!((copied.unwrap().is_likely(true), count), (is_likely, 1), "{at} {before}");
        }
        let code = [&[TRAP; 20][..], &[HOP, 4, TRAP, 1, 2, 3, 4, 5, 6], &JUMP_AWAY[..4], &[0x90; 9]].concat();
        let found: Vec<usize> = Candidate::all(&code, (0x12345, 0x12345)).into_iter().map(|one| one.at).collect();
        assert_eq!(found, [0, 20], "and not the jump, which is another one");
    }

    #[test]
    fn jumps_lead_where_the_processor_goes() {
        let code = [0x90, JUMP, 0xfa, 0xff, 0xff, 0xff, 0x90, 0x90];
        assert_eq!(Candidate::all(&code, ANY)[0].target(0x1000), Some(0x1000));
    }
}
