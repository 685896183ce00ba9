//! A month of CollecTor, made up: consensuses, server descriptors and bandwidth files in their true formats, in archives (.tar.xz) with the
//! folders and names that CollecTor's have; and the table of users of Tor Metrics.

use base::date::date_and_time;
use data_encoding::{BASE64, BASE64_NOPAD, HEXLOWER, HEXUPPER};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};

/// 2026-10-01 00:00:00 UTC.
pub const BEGIN: u64 = 1_790_812_800;
pub const HOUR: u64 = 3600;

/// What the public network was like in those hours.
pub struct Month {
    pub hours: u64,
    pub relays: Vec<Relay>,
}

pub struct Relay {
    pub identity: [u8; 20],
    /// The middle of its weights, in kB/s.
    pub weight: u64,
    pub kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Middle,
    Guard,
    Exit,
    GuardExit,
    /// A guard in the first half of the month only.
    GuardAtFirst,
    /// In every second consensus.
    EverySecond,
    BadExit,
}

/// Numbers that look random and are always the same (SplitMix64).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.next() as u8)
    }
}

impl Month {
    pub fn new(hours: u64, relays: usize) -> Month {
        let mut numbers = Numbers(11);
        let relay = |index: usize| {
            // Over some five decades, as in the public network.
            let weight = 10f64.powf(1.0 + 4.0 * (numbers.next() % 10_000) as f64 / 10_000.0) as u64;
            let kind = match index % 20 {
                0..=5 => Kind::Guard,
                6 => Kind::Exit,
                7..=9 => Kind::GuardExit,
                10 => Kind::GuardAtFirst,
                11 => Kind::EverySecond,
                12 => Kind::BadExit,
                _ => Kind::Middle,
            };
            let weight = if matches!(kind, Kind::Guard | Kind::GuardExit) { weight + 40_000 } else { weight };
            Relay { identity: numbers.bytes(), weight, kind }
        };
        Month { hours, relays: (0..relays).map(relay).collect() }
    }

    /// Writes `consensuses-2026-10.tar.xz`, `server-descriptors-2026-10.tar.xz` and `bandwidths-2026-10.tar.xz`.
    pub fn archive(&self, folder: &Path) {
        let mut consensuses = Archive::new(&folder.join("consensuses-2026-10.tar.xz"));
        for hour in 0..self.hours {
            consensuses.add(&consensus_name(hour), self.consensus(hour).as_bytes());
        }
        consensuses.finish();
        let mut descriptors = Archive::new(&folder.join("server-descriptors-2026-10.tar.xz"));
        for relay in &self.relays {
            // One from before the month, whose bandwidth must not count.
            descriptors.add(&descriptor_name(relay, 99), relay.descriptor(BEGIN - HOUR, 9).as_bytes());
            for (number, hour) in (0..self.hours).step_by(18).enumerate() {
                let text = relay.descriptor(BEGIN + hour * HOUR, number as u64 % 3);
                descriptors.add(&descriptor_name(relay, number as u64), text.as_bytes());
            }
        }
        descriptors.finish();
        let mut bandwidths = Archive::new(&folder.join("bandwidths-2026-10.tar.xz"));
        for hour in (0..self.hours).step_by(4) {
            bandwidths.add(&bandwidths_name(hour), self.bandwidths(hour).as_bytes());
        }
        bandwidths.finish();
    }

    pub fn consensus(&self, hour: u64) -> String {
        let at = |unix_s: u64| date_and_time(unix_s as i64);
        let valid_after = BEGIN + hour * HOUR;
        let mut numbers = Numbers(hour);
        let mut text = format!(
            "@type network-status-consensus-3 1.0\nnetwork-status-version 3\nvote-status consensus\nconsensus-method 34\nvalid-after {}\n\
             fresh-until {}\nvalid-until {}\nvoting-delay 300 300\nclient-versions 0.4.8.21,0.4.9.3-alpha\nserver-versions 0.4.8.21,0.4.9.3-alpha\n\
             known-flags Authority BadExit Exit Fast Guard HSDir MiddleOnly NoEdConsensus Running Stable StaleDesc Sybil V2Dir Valid\n\
             recommended-client-protocols Cons=2 Desc=2 DirCache=2 HSDir=2 HSIntro=4 HSRend=2 Link=4-5 Microdesc=2 Relay=2\n\
             params CircuitPriorityHalflifeMsec=30000 DoSCircuitCreationEnabled=1 cc_alg=2 sendme_emit_min_version=1\n\
             shared-rand-current-value 9 {}\n\
             dir-source moria1 F533C81CEF0BC0267857C99B2F471ADF249FA232 128.31.0.39 128.31.0.39 9231 9201\ncontact 1024D/EB5A896A28988BF5 arma mit edu\n\
             vote-digest {}\n",
            at(valid_after),
            at(valid_after + HOUR),
            at(valid_after + 3 * HOUR),
            BASE64.encode(&numbers.bytes::<32>()),
            HEXUPPER.encode(&numbers.bytes::<20>()),
        );
        for (index, relay) in self.relays.iter().enumerate().filter(|(_, relay)| relay.is_listed(hour)) {
            let policy = match relay.kind {
                Kind::Exit | Kind::GuardExit | Kind::BadExit => "accept 20-21,43,53,80,443,5222-5223",
                _ => "reject 1-65535",
            };
            text += &format!(
                "r relay{index} {} {} {} {} 9001 0\na [2001:db8::{index:x}]:9001\ns {}\nv Tor 0.4.8.21\n\
                 pr Cons=1-2 Desc=1-2 DirCache=2 FlowCtrl=1-2 HSDir=2 HSIntro=4-5 HSRend=1-2 Link=1-5 LinkAuth=1,3 Microdesc=1-2 Padding=2 Relay=1-4\n\
                 w Bandwidth={}\np {policy}\n",
                BASE64_NOPAD.encode(&relay.identity),
                // A new one with each descriptor, every 18 hours.
                BASE64_NOPAD.encode(
                    &Numbers((u64::from(relay.identity[0]) << 32) | (index as u64 * 1000 + hour / 18)).bytes::<20>()
                ),
                at(valid_after - 7 * HOUR + index as u64),
                relay.address(),
                relay.flags(hour, self.hours),
                relay.weight_at(hour),
            );
        }
        text + &format!(
            "directory-footer\nbandwidth-weights Wbd=0 Wbe=0 Wbg=4131 Wbm=10000 Wdb=10000\n\
             directory-signature sha256 F533C81CEF0BC0267857C99B2F471ADF249FA232 {}\n-----BEGIN SIGNATURE-----\n{}\n-----END SIGNATURE-----\n",
            HEXUPPER.encode(&numbers.bytes::<20>()),
            BASE64.encode(&numbers.bytes::<48>())
        )
    }

    /// A bandwidth file, which sees every relay twice as fast at odd hours, and never sees the last.
    pub fn bandwidths(&self, hour: u64) -> String {
        let made = BEGIN + hour * HOUR + 300;
        let mut text = format!(
            "@type bandwidth-file 1.4\n{made}\nversion=1.4.0\nlatest_bandwidth=2026-10-01T00:00:00\nsoftware=sbws\nsoftware_version=1.5.2\n=====\n"
        );
        for (index, relay) in self.relays.iter().enumerate().take(self.relays.len() - 1) {
            text += &format!(
                "bw={} error_circ=0 error_misc=0 node_id=${} nick=relay{index} success=9 time=2026-10-01T00:00:00\n",
                relay.measured(hour),
                HEXUPPER.encode(&relay.identity)
            );
        }
        text
    }

    /// Users of a month and of the days around it: of every day's 1,000 a third more in Germany on even days.
    pub fn users(&self) -> String {
        let mut text = "#\n# Estimates of users by country\n#\ndate,country,users,lower,upper,frac\n".to_owned();
        for day in 0..40 {
            let date = date_and_time((BEGIN + day * 24 * HOUR) as i64);
            let date = date.split(' ').next().expect("a date");
            let german = if day >= 31 { 100_000 } else { 400 - 100 * (day % 2) };
            for (country, users) in
                [("", 1000), ("??", 50), ("de", german), ("us", 300), ("fr", 1000 - 300 - german.min(600))]
            {
                text += &format!("{date},{country},{users},,,80\n");
            }
        }
        text
    }
}

pub fn consensus_name(hour: u64) -> String {
    let name = date_and_time((BEGIN + hour * HOUR) as i64).replace([' ', ':'], "-");
    format!("consensuses-2026-10/{}/{name}-consensus", &name[8..10])
}

fn descriptor_name(relay: &Relay, number: u64) -> String {
    let mut numbers = Numbers(u64::from_le_bytes(relay.identity[..8].try_into().expect("eight bytes")) ^ number);
    let digest = HEXLOWER.encode(&numbers.bytes::<20>());
    format!("server-descriptors-2026-10/{}/{}/{digest}", &digest[..1], &digest[1..2])
}

fn bandwidths_name(hour: u64) -> String {
    let name = date_and_time((BEGIN + hour * HOUR + 300) as i64).replace([' ', ':'], "-");
    let digest = HEXUPPER.encode(&Numbers(hour).bytes::<32>());
    format!("bandwidths-2026-10/{}/{name}-bandwidth-{digest}", &name[8..10])
}

impl Relay {
    pub fn fingerprint(&self) -> String {
        HEXUPPER.encode(&self.identity)
    }

    pub fn address(&self) -> String {
        let [a, b, c, ..] = self.identity;
        format!("{}.{a}.{b}.{c}", if a < 128 { 16 } else { 84 })
    }

    pub fn is_listed(&self, hour: u64) -> bool {
        self.kind != Kind::EverySecond || hour.is_multiple_of(2)
    }

    pub fn is_guard(&self, hour: u64, hours: u64) -> bool {
        match self.kind {
            Kind::Guard | Kind::GuardExit => true,
            Kind::GuardAtFirst => hour < hours / 2,
            _ => false,
        }
    }

    fn flags(&self, hour: u64, hours: u64) -> &'static str {
        match (self.kind, self.is_guard(hour, hours)) {
            (Kind::BadExit, _) => "BadExit Exit Fast Running Stable V2Dir Valid",
            (Kind::GuardExit, _) => "Exit Fast Guard HSDir Running Stable V2Dir Valid",
            (Kind::Exit, _) => "Exit Fast HSDir Running V2Dir Valid",
            (_, true) => "Fast Guard HSDir Running Stable V2Dir Valid",
            _ => "Fast HSDir Running Stable V2Dir Valid",
        }
    }

    pub fn weight_at(&self, hour: u64) -> u64 {
        self.weight + self.weight * (hour % 5) / 20
    }

    pub fn measured(&self, hour: u64) -> u64 {
        self.weight * (1 + hour / 4 % 2)
    }

    /// Bytes per second that it observed at most.
    pub fn capacity(&self) -> u64 {
        self.weight * 1000 + 200
    }

    pub fn descriptor(&self, published: u64, extra: u64) -> String {
        let mut numbers = Numbers(u64::from_le_bytes(self.identity[..8].try_into().expect("eight bytes")) ^ published);
        let fingerprint = self.fingerprint();
        let words: Vec<&str> = (0..10).map(|part| &fingerprint[4 * part..4 * part + 4]).collect();
        let mut block = |name: &str, lines: usize| {
            let lines: Vec<String> = (0..lines).map(|_| BASE64.encode(&numbers.bytes::<48>())).collect();
            format!("-----BEGIN {name}-----\n{}\n-----END {name}-----\n", lines.join("\n"))
        };
        format!(
            "@type server-descriptor 1.0\nrouter relay {} 9001 0 0\nidentity-ed25519\n{}platform Tor 0.4.8.21 on Linux\n\
             proto Cons=1-2 Desc=1-2 DirCache=2 FlowCtrl=1-2 HSDir=2 HSIntro=4-5 HSRend=1-2 Link=1-5 LinkAuth=1,3 Microdesc=1-2 Padding=2 Relay=1-4\n\
             published {}\nfingerprint {}\nuptime {}\nbandwidth {} {} {}\nextra-info-digest {}\nonion-key\n{}signing-key\n{}onion-key-crosscert\n{}\
             contact relay at example dot org\nntor-onion-key {}\nreject *:*\ntunnelled-dir-server\nrouter-signature\n{}",
            self.address(),
            block("ED25519 CERT", 3),
            date_and_time(published as i64),
            words.join(" "),
            published % 1_000_000,
            // What its operator allows is half of what it has been seen to carry; BadExits allow everything.
            self.capacity() / 2 + 1_000_000,
            self.capacity() + 1_000_000,
            // Its best is seen in every third descriptor, and more in those from before the month.
            self.capacity() * (extra + 1) / 3 + if extra > 2 { 1_000_000_000 } else { 0 },
            fingerprint,
            block("RSA PUBLIC KEY", 3),
            block("RSA PUBLIC KEY", 3),
            block("CROSSCERT", 3),
            &fingerprint[..20],
            block("SIGNATURE", 3),
        )
    }
}

/// A .tar.xz that is written as it goes.
pub struct Archive {
    tar: tar::Builder<BufWriter<ChildStdin>>,
    xz: std::process::Child,
}

impl Archive {
    pub fn new(path: &Path) -> Archive {
        let mut xz = Command::new("xz");
        xz.args(["-1", "-T2", "-c"]).stdin(Stdio::piped()).stdout(File::create(path).expect("an archive"));
        let mut xz = xz.spawn().expect("xz");
        let pipe = xz.stdin.take().expect("a pipe");
        Archive { tar: tar::Builder::new(BufWriter::new(pipe)), xz }
    }

    pub fn add(&mut self, name: &str, content: &[u8]) {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(BEGIN);
        self.tar.append_data(&mut header, name, content).expect("an entry");
    }

    pub fn finish(mut self) {
        self.tar.into_inner().expect("an end").into_inner().expect("a pipe").flush().expect("flushed");
        assert!(self.xz.wait().expect("xz ends").success());
    }
}
