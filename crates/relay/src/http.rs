//! A question to a directory authority over HTTP, and its answer.

use mio::net::TcpStream;
use std::io::{self, Read, Write};
use std::net::SocketAddr;

pub struct Exchange {
    pub socket: TcpStream,
    unsent: Vec<u8>,
    answer: Vec<u8>,
    /// Bytes of the answer that are kept.
    most: usize,
    search: Option<Search>,
}

/// Looks for some bytes in all of the answer, also in what is not kept.
struct Search {
    wanted: Vec<u8>,
    /// The end of what has been looked through, in which they may begin.
    end: Vec<u8>,
    is_found: bool,
}

impl Search {
    fn look(&mut self, bytes: &[u8]) {
        if self.is_found {
            return;
        }
        self.end.extend_from_slice(bytes);
        self.is_found = self.end.windows(self.wanted.len()).any(|window| window == self.wanted);
        self.end.drain(..self.end.len().saturating_sub(self.wanted.len() - 1));
    }
}

impl Exchange {
    /// Connects and asks; what of the answer goes beyond `most` bytes is passed over.
    pub fn begin(authority: SocketAddr, request: Vec<u8>, most: usize) -> io::Result<Exchange> {
        Ok(Exchange { socket: TcpStream::connect(authority)?, unsent: request, answer: Vec::new(), most, search: None })
    }

    /// Looks for `wanted`, which must not be empty, in the whole answer.
    pub fn search(&mut self, wanted: Vec<u8>) {
        self.search = Some(Search { wanted, end: Vec::new(), is_found: false });
    }

    /// Whether the answer, so far, has what is looked for in it.
    pub fn has_found(&self) -> bool {
        self.search.as_ref().is_some_and(|search| search.is_found)
    }

    /// The socket can do something; whether the answer is whole.
    pub fn go_on(&mut self) -> io::Result<bool> {
        if let Some(error) = self.socket.take_error()? {
            return Err(error);
        }
        let later = |error: &io::Error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected);
        while !self.unsent.is_empty() {
            match self.socket.write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if later(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        let mut buffer = [0; 4096];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => return Ok(true),
                Ok(count) => {
                    if let Some(search) = &mut self.search {
                        search.look(&buffer[..count]);
                    }
                    let kept = count.min(self.most - self.answer.len());
                    self.answer.extend_from_slice(&buffer[..kept]);
                }
                Err(error) if later(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// The answer's body if its status is 200, else its first line.
    pub fn body(&self) -> Result<String, String> {
        let answer = String::from_utf8_lossy(&self.answer);
        let line = answer.lines().next().unwrap_or_default();
        if line.split_whitespace().nth(1) != Some("200") {
            return Err(line.to_owned());
        }
        Ok(answer.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Shutdown, TcpListener};

    fn ask(answer: &str, most: usize) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut exchange = Exchange::begin(listener.local_addr().unwrap(), b"GET\n".to_vec(), most).unwrap();
        let (mut socket, _) = listener.accept().unwrap();
        while !exchange.unsent.is_empty() {
            assert!(!exchange.go_on().unwrap());
        }
        let mut asked = [0; 4];
        socket.read_exact(&mut asked).unwrap();
        assert_eq!(&asked, b"GET\n");
        socket.write_all(answer.as_bytes()).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        while !exchange.go_on().unwrap() {}
        exchange.body()
    }

    #[test]
    fn bytes_are_found_across_pieces_of_an_answer() {
        let search = |pieces: &[&[u8]]| {
            let mut search = Search { wanted: b" id ".to_vec(), end: Vec::new(), is_found: false };
            pieces.iter().for_each(|piece| search.look(piece));
            (search.is_found, search.end.len())
        };
        assert_eq!(search(&[b"r name id 2000"]), (true, 3));
        assert!(search(&[b"r name i", b"d", b" 2000"]).0);
        assert_eq!(search(&[b"r name i", b"", b" d 2000"]), (false, 3));
        assert_eq!(search(&[b"x"]), (false, 1));
    }

    #[test]
    fn an_answer_has_a_status_and_a_body_of_which_the_beginning_is_kept() {
        assert_eq!(ask("HTTP/1.0 200 OK\r\nDate: x\r\n\r\nbody", 1000), Ok("body".to_owned()));
        assert_eq!(ask("HTTP/1.0 200 OK\r\n\r\nbody", 21), Ok("bo".to_owned()));
        assert_eq!(ask("HTTP/1.0 404 Not found\r\n\r\nx", 1000), Err("HTTP/1.0 404 Not found".to_owned()));
        assert_eq!(ask("", 1000), Err(String::new()));
    }
}
