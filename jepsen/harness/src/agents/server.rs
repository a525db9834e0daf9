//! A small HTTP server for agents: whole bodies in, whole bodies out, and answers that never come.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep};
use tokio_util::sync::CancellationToken;

/// The longest body that is read, in bytes.
const BODY_LIMIT: usize = 8 << 20;
/// Between two tries to take a connection after one failed.
const PAUSE: Duration = Duration::from_millis(10);

/// A request.
#[derive(Debug, Clone)]
pub struct Received {
    /// Who sent it.
    pub from: IpAddr,
    /// `GET`, `POST`.
    pub method: String,
    /// From the first `/` to `?`.
    pub path: String,
    /// After `?`, else empty.
    pub query: String,
    /// Headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// The answer to a request.
#[derive(Debug, Clone)]
pub enum Reaction {
    /// An answer.
    Answer {
        /// HTTP status.
        status: u16,
        /// The body, JSON.
        body: Vec<u8>,
        /// The body follows so long after the head.
        body_delay: Duration,
    },
    /// No answer: the connection stays as it is until the other side gives up.
    Silence,
}

impl Reaction {
    /// An answer at once.
    pub fn answer(status: u16, body: impl Into<Vec<u8>>) -> Reaction {
        Reaction::Answer { status, body: body.into(), body_delay: Duration::ZERO }
    }
}

/// Serves until `stop`; every connection ends with it, whatever is under way.
pub async fn serve<H, F>(listener: TcpListener, handle: H, stop: CancellationToken)
where
    H: Fn(Received) -> F + Clone + Send + 'static,
    F: Future<Output = Reaction> + Send,
{
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            () = stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, from)) => {
                // Small answers are not to wait for acknowledgements; without this they are late, no more.
                let _ = stream.set_nodelay(true);
                let handle = handle.clone();
                let service = service_fn(move |request| answer(handle.clone(), from, request));
                connections.spawn(async move {
                    let connection = hyper::server::conn::http1::Builder::new();
                    // A connection that breaks is the other side's business.
                    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
            // No file is free, or the peer is gone already.
            Err(_) => sleep(PAUSE).await,
        }
    }
}

async fn answer<H, F>(
    handle: H,
    from: SocketAddr,
    request: Request<Incoming>,
) -> Result<Response<Late>, Infallible>
where
    H: Fn(Received) -> F,
    F: Future<Output = Reaction>,
{
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, BODY_LIMIT).collect().await else {
        return Ok(response(413, Vec::new(), Duration::ZERO));
    };
    let received = Received {
        from: from.ip(),
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers,
        body: body.to_bytes(),
    };
    match handle(received).await {
        Reaction::Answer { status, body, body_delay } => Ok(response(status, body, body_delay)),
        Reaction::Silence => pending().await,
    }
}

fn response(status: u16, body: Vec<u8>, delay: Duration) -> Response<Late> {
    let kind = if status < 400 { "application/json" } else { "application/problem+json" };
    Response::builder()
        .status(status)
        .header(CONTENT_TYPE, kind)
        .body(Late::new(body, delay))
        .expect("status and header are well-formed")
}

/// A body that comes some time after its head.
struct Late {
    bytes: Option<Bytes>,
    wait: Option<Pin<Box<Sleep>>>,
}

impl Late {
    fn new(bytes: Vec<u8>, delay: Duration) -> Late {
        let wait = (!delay.is_zero()).then(|| Box::pin(sleep(delay)));
        Late { bytes: Some(Bytes::from(bytes)), wait }
    }
}

impl Body for Late {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(context));
            self.wait = None;
        }
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }
}
