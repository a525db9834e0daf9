//! How a connection begins: HTTP/2 says so in its first 24 bytes, everything else is HTTP/1.1.
//!
//! Whoever serves both must wait until it knows which, and the timer on heads runs only from then on. Here those
//! first bytes have a deadline of their own, so that half a preface keeps no connection open.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// What an HTTP/2 client sends first (RFC 9113, section 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream whose first bytes must tell in time which protocol it speaks.
pub(crate) struct Prefaced<S> {
    stream: S,
    /// While that is open: how much of the preface has come, and until when the rest may.
    waits: Option<(usize, Pin<Box<Sleep>>)>,
}

impl<S> Prefaced<S> {
    /// Gives `stream` so long to tell.
    pub(crate) fn new(stream: S, within: Duration) -> Self {
        Prefaced { stream, waits: Some((0, Box::pin(sleep(within)))) }
    }

    /// Bytes have come.
    fn heard(&mut self, bytes: &[u8]) {
        let Some((known, _)) = &mut self.waits else { return };
        let rest = &PREFACE[*known..];
        *known += bytes.len();
        // The whole preface, another beginning, or the end of the stream.
        if bytes.is_empty() || bytes.len() >= rest.len() || !rest.starts_with(bytes) {
            self.waits = None;
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefaced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.waits.is_none() {
            return Pin::new(&mut this.stream).poll_read(cx, buffer);
        }
        let before = buffer.filled().len();
        match Pin::new(&mut this.stream).poll_read(cx, buffer) {
            Poll::Ready(read) => {
                this.heard(&buffer.filled()[before..]);
                Poll::Ready(read)
            }
            Poll::Pending => {
                let Some((_, deadline)) = &mut this.waits else { return Poll::Pending };
                deadline.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefaced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// What reading comes to after these pieces, with nothing after them.
    async fn read(pieces: &[&[u8]]) -> io::Result<usize> {
        let (mut other, stream) = tokio::io::duplex(1024);
        let mut stream = Prefaced::new(stream, SECOND);
        for piece in pieces {
            other.write_all(piece).await?;
            let mut taken = vec![0; piece.len()];
            stream.read_exact(&mut taken).await?;
            assert_eq!(taken, *piece);
        }
        let mut more = [0];
        tokio::time::timeout(60 * SECOND, stream.read(&mut more))
            .await
            .map_err(|_| io::Error::other("waits"))?
    }

    const HALVES: &[&[&[u8]]] = &[&[], &[b"P"], &[b"PRI * ", b"HTTP/2.0\r\n\r\nSM\r\n\r"]];
    const WHOLES: &[&[&[u8]]] =
        &[&[PREFACE], &[b"PRI * H", b"TTP/2.0\r\n\r\nSM\r\n\r\n"], &[b"G"], &[b"PR", b"OPFIND"]];

    #[tokio::test(start_paused = true)]
    async fn only_half_a_preface_has_a_deadline() {
        for half in HALVES {
            assert_eq!(read(half).await.unwrap_err().kind(), io::ErrorKind::TimedOut, "{half:?}");
        }
        for whole in WHOLES {
            assert_eq!(read(whole).await.unwrap_err().to_string(), "waits", "{whole:?}");
        }
    }
}
