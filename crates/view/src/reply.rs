//! What goes back to a browser: whole, or part by part while it is made. Work for a browser that has gone ends.

use crate::error::{Error, Result};
use duckdb::{Connection, InterruptHandle};
use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

/// Bytes that are sent at once.
const PART: usize = 1 << 16;
/// Parts that may wait for a slow reader.
const WAITING: usize = 4;
/// Between two attempts to stop work.
const REST: Duration = Duration::from_millis(20);

/// Work with a connection, on a thread of its own. Dropped before its end, it is stopped.
pub struct Work<T> {
    task: JoinHandle<T>,
    interrupt: Arc<InterruptHandle>,
}

impl<T: Send + 'static> Work<T> {
    pub fn begin(connection: Connection, work: impl FnOnce(&Connection) -> T + Send + 'static) -> Work<T> {
        let interrupt = connection.interrupt_handle();
        Work { task: tokio::task::spawn_blocking(move || work(&connection)), interrupt }
    }

    /// What came of it; none if it has panicked.
    pub async fn end(mut self) -> Option<T> {
        (&mut self.task).await.ok()
    }
}

impl<T> Drop for Work<T> {
    fn drop(&mut self) {
        let (task, interrupt) = (self.task.abort_handle(), Arc::clone(&self.interrupt));
        if task.is_finished() {
            return;
        }
        task.abort();
        // DuckDB forgets an interruption where the next statement begins.
        tokio::spawn(async move {
            while !task.is_finished() {
                interrupt.interrupt();
                tokio::time::sleep(REST).await;
            }
        });
    }
}

/// The body of an answer.
pub enum Answered {
    Whole(Full<Bytes>),
    Parts { next: Option<Bytes>, rest: Receiver<Result<Bytes>>, _work: Work<()> },
}

impl Answered {
    /// The parts of what `work` writes, of which few wait for the reader at any time.
    ///
    /// # Errors
    /// What went wrong before there was a part to send.
    pub async fn parts(
        connection: Connection,
        work: impl FnOnce(&Connection, &mut Parts) -> Result<()> + Send + 'static,
    ) -> Result<Answered> {
        let (sender, mut rest) = channel(WAITING);
        let work = Work::begin(connection, move |connection| {
            let mut parts = Parts { sender, waiting: Vec::new() };
            if let Err(error) = work(connection, &mut parts).and_then(|()| Ok(parts.send()?)) {
                let _ = parts.sender.blocking_send(Err(error));
            }
        });
        match rest.recv().await {
            Some(next) => Ok(Answered::Parts { next: Some(next?), rest, _work: work }),
            None => Err(Error::new("the answer has not come to its end")),
        }
    }
}

impl Body for Answered {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Answered::Whole(all) => Pin::new(all).poll_frame(context).map_err(|never| match never {}),
            Answered::Parts { next, rest, .. } => match next.take() {
                Some(next) => Poll::Ready(Some(Ok(Frame::data(next)))),
                None => rest.poll_recv(context).map(|part| part.map(|part| part.map(Frame::data))),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Answered::Whole(all) if all.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Answered::Whole(all) => all.size_hint(),
            Answered::Parts { .. } => SizeHint::default(),
        }
    }
}

/// Where an answer is written that goes out part by part: a writer waits for its reader, and fails once that has gone.
pub struct Parts {
    sender: Sender<Result<Bytes>>,
    waiting: Vec<u8>,
}

impl Parts {
    fn send(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let part = std::mem::take(&mut self.waiting);
        self.sender.blocking_send(Ok(part.into())).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= PART {
            self.send()?;
        }
        Ok(bytes.len())
    }

    /// Parts are sent when they are full.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
