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
}

impl Exchange {
    /// Connects and asks; what of the answer goes beyond `most` bytes is passed over.
    pub fn begin(authority: SocketAddr, request: Vec<u8>, most: usize) -> io::Result<Exchange> {
        Ok(Exchange { socket: TcpStream::connect(authority)?, unsent: request, answer: Vec::new(), most })
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
    fn an_answer_has_a_status_and_a_body_of_which_the_beginning_is_kept() {
        assert_eq!(ask("HTTP/1.0 200 OK\r\nDate: x\r\n\r\nbody", 1000), Ok("body".to_owned()));
        assert_eq!(ask("HTTP/1.0 200 OK\r\n\r\nbody", 21), Ok("bo".to_owned()));
        assert_eq!(ask("HTTP/1.0 404 Not found\r\n\r\nx", 1000), Err("HTTP/1.0 404 Not found".to_owned()));
        assert_eq!(ask("", 1000), Err(String::new()));
    }
}
