//! The client's end of a circuit: a layer for each hop, around all cells that go there and come from there (tor-spec, "Routing
//! relay cells").

use super::layer::Layer;
use super::message::Message;
use crate::cell::BODY;
use crate::handshake::HopKeys;

/// The hops with which keys are agreed, the nearest first.
#[derive(Default)]
pub struct Route {
    layers: Vec<Layer>,
}

impl Route {
    pub fn add(&mut self, keys: &HopKeys) {
        self.layers.push(Layer::new(keys));
    }

    pub fn hops(&self) -> usize {
        self.layers.len()
    }

    /// A cell with a message for hop number `hop`, counted from 0, and the digest by which a SENDME names it.
    ///
    /// # Panics
    /// If there is no such hop.
    pub fn seal(&mut self, hop: usize, message: &Message<'_>, fill: impl FnOnce(&mut [u8])) -> ([u8; BODY], [u8; 20]) {
        let mut body = message.write(fill);
        let digest = self.layers[hop].forward.seal(&mut body);
        self.layers[..=hop].iter_mut().rev().for_each(|layer| layer.forward.crypt(&mut body));
        (body, digest)
    }

    /// Decrypts a cell up to the hop that it is of: that hop, and the cell's digest. Nothing if no hop says that it is its own.
    pub fn open(&mut self, body: &mut [u8; BODY]) -> Option<(usize, [u8; 20])> {
        for (hop, layer) in self.layers.iter_mut().enumerate() {
            layer.backward.crypt(body);
            if let Some(digest) = layer.backward.recognize(body) {
                return Some((hop, digest));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circuit::message::Command;
    use crate::handshake::fast;

    fn keys(number: u8) -> HopKeys {
        fast::answer(&[number; 20], [number; 20]).1
    }

    #[test]
    fn each_hop_takes_its_own_layer_off_and_adds_it() {
        let mut route = Route::default();
        let mut relays: Vec<Layer> = (1..=3).map(|number| Layer::new(&keys(number))).collect();
        (1..=3).for_each(|number| route.add(&keys(number)));
        for hop in [2, 0, 1, 2] {
            let said = [hop as u8; 5];
            let message = Message { command: Command::DATA, stream: 7, body: &said };
            let (mut body, sealed) = route.seal(hop, &message, |_| {});
            for (at, relay) in relays.iter_mut().enumerate().take(hop + 1) {
                relay.forward.crypt(&mut body);
                assert_eq!(relay.forward.recognize(&body), (at == hop).then_some(sealed));
            }
            assert_eq!(Message::read(&body), Some(message));
            let mut body = message.write(|_| {});
            let digest = relays[hop].backward.seal(&mut body);
            relays[..=hop].iter_mut().rev().for_each(|relay| relay.backward.crypt(&mut body));
            assert_eq!(route.open(&mut body), Some((hop, digest)));
            assert_eq!(Message::read(&body), Some(message));
        }
        assert_eq!(route.open(&mut [9; BODY]), None, "of nobody");
    }
}
