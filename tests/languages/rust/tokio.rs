//! A guest in Rust on tokio: `serve` answers requests until SIGTERM, `fetch HOST` is its client, `alone` does what needs no other
//! host. All output is the same in every run on every machine.

use std::io::{self, ErrorKind};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UdpSocket, UnixListener, UnixStream};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Mutex, broadcast, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep, timeout};

const PORT: u16 = 8080;

#[tokio::main(worker_threads = 4)]
async fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve"] => serve().await,
        ["fetch", host] => fetch(host).await,
        ["alone"] => alone().await,
        _ => Err(io::Error::from(ErrorKind::InvalidInput)),
    }
}

/// Answers lines "N WORD" with N copies of the word until the other side closes; "slow" gets no answer.
async fn converse(stream: TcpStream) -> io::Result<usize> {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    let mut count = 0;
    while let Some(line) = lines.next_line().await? {
        count += 1;
        if let Some((times, word)) = line.split_once(' ') {
            let times: usize = times.parse().map_err(|_| ErrorKind::InvalidData)?;
            writer.write_all(word.repeat(times).as_bytes()).await?;
            writer.write_all(b"\n").await?;
        }
    }
    Ok(count)
}

async fn serve() -> io::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    let mut end = signal(SignalKind::terminate())?;
    let mut conversations = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => { conversations.spawn(converse(accepted?.0)); }
            _ = end.recv() => break,
        }
    }
    let mut total = 0;
    while let Some(count) = conversations.join_next().await {
        total += count??;
    }
    println!("requests {total}");
    Ok(())
}

async fn ask(host: String, number: usize) -> io::Result<String> {
    let mut stream = BufReader::new(TcpStream::connect((host, PORT)).await?);
    let mut text = String::new();
    for round in 1..=3 {
        stream.write_all(format!("{} word{number}\n", round * 1000).as_bytes()).await?;
        stream.read_line(&mut text).await?;
    }
    Ok(format!("{number} {}", text.len()))
}

async fn fetch(host: &str) -> io::Result<()> {
    let mut visits = JoinSet::new();
    for number in 0..20 {
        visits.spawn(ask(host.to_owned(), number));
    }
    let mut answers = Vec::new();
    while let Some(answer) = visits.join_next().await {
        answers.push(answer??);
    }
    answers.sort_unstable();
    println!("{}", answers.join("\n"));
    let mut slow = TcpStream::connect((host, PORT)).await?;
    slow.write_all(b"slow\n").await?;
    let start = Instant::now();
    let late = timeout(Duration::from_secs(3), slow.read_u8()).await;
    println!("timeout {} after {} s", late.is_err(), start.elapsed().as_secs());
    println!("{:?}", TcpStream::connect((host, 9)).await.map_err(|error| error.kind()).err());
    println!("unknown {}", tokio::net::lookup_host("nobody.invalid:80").await.is_err());
    Ok(())
}

async fn alone() -> io::Result<()> {
    tasks().await;
    timers().await;
    processes().await?;
    files().await?;
    sockets().await?;
    signals().await?;
    threads();
    Ok(())
}

async fn tasks() {
    let (sender, mut receiver) = mpsc::channel(8);
    for number in 0..1000_u64 {
        let sender = sender.clone();
        tokio::spawn(async move {
            tokio::task::yield_now().await;
            sender.send(number).await.expect("a receiver");
        });
    }
    drop(sender);
    let mut sum = 0;
    while let Some(number) = receiver.recv().await {
        sum += number;
    }
    println!("sum {sum}");
    let (news, _) = broadcast::channel(16);
    let readers: Vec<_> = (0..5).map(|_| tokio::spawn(read_all(news.subscribe()))).collect();
    for number in 1..=10 {
        news.send(number).expect("readers");
        tokio::task::yield_now().await;
    }
    drop(news);
    for reader in readers {
        println!("heard {}", reader.await.expect("an end"));
    }
    let blocking: Vec<_> = (0..20_u64).map(|n| tokio::task::spawn_blocking(move || (0..=n).sum::<u64>())).collect();
    let mut total = 0;
    for task in blocking {
        total += task.await.expect("an end");
    }
    println!("blocking {total}");
    println!("panicked {}", tokio::spawn(fail()).await.is_err_and(|error| error.is_panic()));
}

async fn fail() -> u32 {
    std::panic::resume_unwind(Box::new("on purpose"))
}

async fn read_all(mut news: broadcast::Receiver<u32>) -> u32 {
    let mut sum = 0;
    while let Ok(number) = news.recv().await {
        sum += number;
    }
    sum
}

async fn timers() {
    let start = Instant::now();
    let mut ticks = interval(Duration::from_millis(10));
    for _ in 0..6 {
        ticks.tick().await;
    }
    println!("ticks {}", start.elapsed() >= Duration::from_millis(50));
    let mut sleepers = JoinSet::new();
    let order = std::sync::Arc::new(Mutex::new(Vec::new()));
    for number in [3_u64, 1, 2] {
        let order = order.clone();
        sleepers.spawn(async move {
            sleep(Duration::from_millis(number * 30)).await;
            order.lock().await.push(number);
        });
    }
    while sleepers.join_next().await.is_some() {}
    println!(
        "{:?} {}",
        order.lock().await,
        timeout(Duration::from_millis(5), oneshot::channel::<()>().1).await.is_ok()
    );
}

async fn processes() -> io::Result<()> {
    let output = Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]).output().await?;
    println!("{output:?}");
    let mut upper = Command::new("tr");
    upper.args(["a-z", "A-Z"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = upper.spawn()?;
    let mut input = child.stdin.take().expect("a pipe");
    let writer = tokio::spawn(async move { input.write_all("words ".repeat(50_000).as_bytes()).await });
    let output = child.wait_with_output().await?;
    writer.await??;
    println!("{} {}", output.stdout.len(), output.status);
    let mut sleeper = Command::new("sleep").arg("100").kill_on_drop(true).spawn()?;
    println!("{}", timeout(Duration::from_millis(50), sleeper.wait()).await.is_err());
    sleeper.start_kill()?;
    println!("{}", sleeper.wait().await?);
    println!("{:?}", Command::new("no-such-command").spawn().map_err(|error| error.kind()).err());
    Ok(())
}

async fn files() -> io::Result<()> {
    let folder = std::env::temp_dir().join(format!("guest-{}", std::process::id()));
    tokio::fs::create_dir(&folder).await?;
    let name = folder.join("file");
    tokio::fs::write(&name, "line\n".repeat(10_000)).await?;
    let mut lines = BufReader::new(tokio::fs::File::open(&name).await?).lines();
    let mut count = 0;
    while lines.next_line().await?.is_some() {
        count += 1;
    }
    println!("{count} lines, {} bytes", tokio::fs::metadata(&name).await?.len());
    tokio::fs::remove_dir_all(&folder).await?;
    println!("{:?}", tokio::fs::read(&name).await.map_err(|error| error.kind()).err());
    Ok(())
}

async fn sockets() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { converse(listener.accept().await?.0).await });
    let mut stream = BufReader::new(TcpStream::connect(address).await?);
    stream.write_all(b"3 word\n").await?;
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    print!("{line}");
    let (first, second) = (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
    first.send_to(b"datagram", second.local_addr()?).await?;
    let mut buffer = [0; 20];
    let (length, from) = second.recv_from(&mut buffer).await?;
    println!("{} {}", String::from_utf8_lossy(&buffer[..length]), from == first.local_addr()?);
    let name = std::env::temp_dir().join(format!("guest-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&name)?;
    let (mut client, served) = (UnixStream::connect(&name).await?, listener.accept().await?);
    client.write_all(b"unix").await?;
    drop(client);
    let (mut stream, mut text) = (served.0, String::new());
    stream.read_to_string(&mut text).await?;
    println!("{text}");
    std::fs::remove_file(name)
}

async fn signals() -> io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    Command::new("kill").args(["-HUP", &std::process::id().to_string()]).status().await?;
    println!("hangup {}", hangup.recv().await.is_some());
    Ok(())
}

/// The standard library's own threads.
fn threads() {
    let barrier = std::sync::Barrier::new(4);
    let counter = std::sync::Mutex::new(0);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (barrier, counter) = (&barrier, &counter);
            scope.spawn(move || {
                for _ in 0..100 {
                    barrier.wait();
                    *counter.lock().expect("a number") += number;
                }
            });
        }
    });
    println!("counted {}", counter.into_inner().expect("a number"));
}
