//! A server that answers every request at once: how fast the load itself can be on this machine's loopback, and
//! so the ceiling of every figure beside it.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::load::{PartError, say};
use crate::message::NullListens;

/// What a submission is answered with.
const ANSWER: &[u8] = br#"{"taskId":"tsk_AAAAAAAAAAAAAAAAAAAAAA","status":"PENDING","version":1}"#;

/// Listens on a free port, says which, and answers for ever.
///
/// # Errors
/// There is no port to be had.
pub async fn run() -> Result<(), PartError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    say(&NullListens { url: format!("http://{}", listener.local_addr()?) })?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(serve(stream));
    }
}

async fn serve(stream: TcpStream) {
    // A connection that cannot be tuned or breaks ends like one that was closed.
    let _ = stream.set_nodelay(true);
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await;
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    // The body is read, as any server must.
    drop(request.into_body().collect().await);
    Ok(Response::new(Full::new(Bytes::from_static(ANSWER))))
}
