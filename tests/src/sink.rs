//! A receiver of callbacks with vices: it writes down whatever arrives, and answers as it is told.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// One callback as it arrived.
#[derive(Debug, Clone)]
pub struct Arrived {
    /// `webhook-id`
    pub id: String,
    /// `webhook-timestamp`
    pub timestamp: String,
    /// `webhook-signature`
    pub signature: String,
    /// The body.
    pub body: Vec<u8>,
}

/// How a callback is answered: by its id, and the count of those that arrived with it, from 1.
pub type Answer = fn(&str, usize) -> u16;

/// A receiver that listens until it is dropped.
#[derive(Debug)]
pub struct Sink {
    /// Its port on loopback.
    pub port: u16,
    arrived: Arc<Mutex<BTreeMap<String, Vec<Arrived>>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Sink {
    /// A receiver that answers like this; status 0 never answers.
    ///
    /// # Panics
    /// There is no free port.
    pub async fn start(answer: Answer) -> Sink {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let arrived: Arc<Mutex<BTreeMap<String, Vec<Arrived>>>> = Arc::default();
        let book = Arc::clone(&arrived);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let book = Arc::clone(&book);
                let service = service_fn(move |request| take(request, Arc::clone(&book), answer));
                tokio::spawn(async move {
                    // Whoever is killed in the middle leaves a broken connection behind.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Sink { port, arrived, task }
    }

    /// Where callbacks go to it.
    pub fn url(&self) -> String {
        format!("http://localhost:{}/hook", self.port)
    }

    /// Whatever arrived, by id.
    pub fn arrived(&self) -> BTreeMap<String, Vec<Arrived>> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn take(
    request: Request<Incoming>,
    book: Arc<Mutex<BTreeMap<String, Vec<Arrived>>>>,
    answer: Answer,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let header = |name: &str| {
        let value = request.headers().get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let (id, timestamp, signature) =
        (header("webhook-id"), header("webhook-timestamp"), header("webhook-signature"));
    let body = match request.into_body().collect().await {
        Ok(body) => body.to_bytes().to_vec(),
        // Broken off: it counts as sent all the same.
        Err(_) => Vec::new(),
    };
    let status = {
        let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
        let of_id = book.entry(id.clone()).or_default();
        let status = answer(&id, of_id.len() + 1);
        of_id.push(Arrived { id, timestamp, signature, body });
        status
    };
    if status == 0 {
        std::future::pending::<()>().await;
    }
    let response = Response::builder().status(status).body(Full::default());
    Ok(response.expect("a status and no body"))
}
