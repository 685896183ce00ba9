//! Patterns of names: `*` stands for any signs, `?` for one.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern(String);

impl Pattern {
    pub(crate) fn new(text: &str) -> Pattern {
        Pattern(text.to_owned())
    }

    /// Whether the whole text fits.
    pub(crate) fn fits(&self, text: &str) -> bool {
        let (pattern, text) = (self.0.as_bytes(), text.as_bytes());
        let (mut p, mut t) = (0, 0);
        // Where the last star was, and how far it reaches.
        let mut star: Option<(usize, usize)> = None;
        while t < text.len() {
            match pattern.get(p) {
                Some(b'*') => {
                    star = Some((p, t));
                    p += 1;
                }
                Some(sign) if *sign == b'?' || *sign == text[t] => (p, t) = (p + 1, t + 1),
                _ => match star {
                    Some((at, reach)) => {
                        (p, t) = (at + 1, reach + 1);
                        star = Some((at, reach + 1));
                    }
                    None => return false,
                },
            }
        }
        pattern[p..].iter().all(|sign| *sign == b'*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_signs_and_question_marks_for_one() {
        let fits = |pattern: &str, text: &str| Pattern::new(pattern).fits(text);
        assert!(fits("*", "") && fits("a*b*c", "a-b-b-c") && fits("lib?.so", "libc.so") && fits("*crypt*", "decrypt"));
        assert!(!fits("", "a") && !fits("a*b", "ab c") && !fits("a?", "a") && !fits("abc", "ab"));
    }
}
