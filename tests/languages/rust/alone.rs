//! A guest of the standard library alone, for the kinds of executables that rustc makes: threads, channels, a server and a client,
//! processes, a caught panic. All output is the same in every run on every machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

fn main() {
    let (sender, receiver) = mpsc::channel();
    for number in 0..50_u64 {
        let sender = sender.clone();
        thread::spawn(move || (0..100).for_each(|i| sender.send(number * i).unwrap()));
    }
    drop(sender);
    println!("sum {}", receiver.iter().sum::<u64>());

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        for stream in listener.incoming().take(10) {
            let mut stream = BufReader::new(stream.unwrap());
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            stream.get_mut().write_all(line.repeat(10_000).as_bytes()).unwrap();
        }
    });
    for number in 0..10 {
        let mut stream = TcpStream::connect(address).unwrap();
        writeln!(stream, "line {number}").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        println!("{} {}", text.len(), text.lines().last().unwrap());
    }
    server.join().unwrap();

    let output = Command::new("sh").args(["-c", "echo $WORD; exit 5"]).env("WORD", "value").output().unwrap();
    println!("{output:?}");
    let start = Instant::now();
    thread::sleep(Duration::from_millis(30));
    println!("slept {}", start.elapsed() >= Duration::from_millis(30));
    std::panic::set_hook(Box::new(|_| {}));
    println!("caught {}", std::panic::catch_unwind(|| Vec::<u32>::new()[std::env::args().count()]).is_err());
}
