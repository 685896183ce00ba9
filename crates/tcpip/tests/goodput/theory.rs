//! What formulas say of the goodput of one connection over a line that loses each packet with probability `p`, without regard to its rate: bits
//! per second.

/// Payload of a full segment with timestamps.
pub const SEGMENT: f64 = 1448.0;
/// Segments for each acknowledgement.
const B: f64 = 2.0;

fn rate(segments_per_second: f64) -> f64 {
    segments_per_second * SEGMENT * 8.0
}

/// Mathis, Semke, Mahdavi, Ott: The macroscopic behavior of the TCP congestion avoidance algorithm (1997), with C = sqrt(3/2): Reno whose every
/// segment is acknowledged, without timeouts.
pub fn mathis(rtt: f64, p: f64) -> f64 {
    rate((1.5 / p).sqrt() / rtt)
}

/// Padhye, Firoiu, Towsley, Kurose: Modeling TCP throughput (1998), the full model (equation 32): Reno with timeouts and at most `window` segments.
pub fn padhye(rtt: f64, p: f64, window: f64) -> f64 {
    // The first timeout is at least 200 ms longer than the round trip with Linux.
    let timeout = rtt + 0.2;
    let q = 1.0 - p;
    let part = (2.0 + B) / (3.0 * B);
    let unlimited = part + (8.0 * q / (3.0 * B * p) + part * part).sqrt();
    // That a loss is found by a timeout.
    let by_timeout =
        |w: f64| ((1.0 - q.powi(3)) * (1.0 + q.powi(3) * (1.0 - q.powf(w - 3.0))) / (1.0 - q.powf(w))).min(1.0);
    let backoff = 1.0 + p + 2.0 * p.powi(2) + 4.0 * p.powi(3) + 8.0 * p.powi(4) + 16.0 * p.powi(5) + 32.0 * p.powi(6);
    let (w, rounds) = if unlimited < window {
        (unlimited, B / 2.0 * unlimited + 1.0)
    } else {
        (window, B / 8.0 * window + q / (p * window) + 2.0)
    };
    let found = by_timeout(w);
    rate((q / p + w + found / q) / (rtt * rounds + found * backoff * timeout / q))
}

/// RFC 9438, section 5.1: the average window of CUBIC in its concave and convex regions, or that of Reno with the same reduction where it is larger.
pub fn rfc9438(rtt: f64, p: f64) -> f64 {
    let (c, beta) = (0.4_f64, 0.7);
    let cubic = (c * (3.0 + beta) / (4.0 * (1.0 - beta))).powf(0.25) * (rtt / p).powf(0.75);
    let alpha = 3.0 * (1.0 - beta) / (1.0 + beta);
    let reno = (alpha * (1.0 + beta) / (2.0 * (1.0 - beta) * p)).sqrt();
    rate(cubic.max(reno) / rtt)
}

#[test]
fn formulas_give_known_values() {
    let is = |value: f64, known: f64| assert!((value / known - 1.0).abs() < 0.005, "{value}, not {known}");
    // 12.25 segments in 100 ms.
    is(mathis(0.1, 0.01), 1.4187e6);
    // Table 1 of RFC 9438's section 5.1: 0.1 s, losses of 1e-4: 187 segments for CUBIC, 122 for Reno; at 1e-2 12 for both.
    is(rfc9438(0.1, 1e-4), rate(187.4 / 0.1));
    is(rfc9438(0.1, 1e-2), rate(12.247 / 0.1));
    // Without timeouts the full model approaches Mathis' with delayed acknowledgements.
    let q = padhye(10.0, 1e-6, 1e9) / (mathis(10.0, 1e-6) / B.sqrt());
    is(q, 1.0);
    // A window that never opens further is carried each round trip.
    is(padhye(0.1, 1e-9, 20.0), rate(200.0));
}
