//! What a replica reaches the world through.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use orloj_api::{Carrier, ForwardError, PeerAnswer, PeerCall};
use orloj_model::callback::{FailureKind, SendOutcome};
use orloj_raft_store::log::LogWriter;
use orloj_raft_store::runner::{Job, Runner};
use orloj_raft_store::types::Member;
use orloj_raft_store::{RpcEnvelope, RpcKind, Transport, TransportError};
use orloj_scheduler::callback::{CallbackLink, Post};
use orloj_scheduler::link::{ExecutorLink, LinkError, Target};

use crate::disk::Disk;
use crate::net::{CallError, Message, Net, Reply, Request};
use crate::place::{Place, SINK_NAME};

/// The longest wait for the answer to a callback.
const CALLBACK_DEADLINE: Duration = Duration::from_secs(10);

/// Runs what waits for the disk in tasks that take as long as the disk does.
pub struct Tasks {
    disk: Disk,
}

impl Tasks {
    pub(super) fn new(disk: Disk) -> Tasks {
        Tasks { disk }
    }
}

impl Runner for Tasks {
    fn write_log(&self, mut writer: LogWriter) -> io::Result<Option<JoinHandle<()>>> {
        let disk = self.disk.clone();
        tokio::spawn(async move {
            loop {
                let work = writer.next().await;
                let (before, after) = disk.sync_time();
                tokio::time::sleep(before).await;
                let written = writer.write(work);
                // The bytes are safe, and nobody has been told.
                tokio::time::sleep(after).await;
                if !writer.report(written) {
                    return;
                }
            }
        });
        Ok(None)
    }

    fn run(&self, job: Job) {
        let (before, after) = self.disk.sync_time();
        tokio::spawn(async move {
            tokio::time::sleep(before + after).await;
            job();
        });
    }
}

/// The network as a replica sees it.
pub struct Wire {
    net: Net,
    place: Place,
}

impl Wire {
    pub(super) fn new(net: Net, place: Place) -> Wire {
        Wire { net, place }
    }

    async fn send(&self, address: &str, request: Request, deadline: Duration) -> Result<Reply, CallError> {
        let to = Place::at(address).ok_or(CallError::Unreachable)?;
        self.net.call(self.place, to, request, deadline).await
    }
}

fn post(path: &str, headers: Vec<(&'static str, String)>, body: impl Into<Bytes>) -> Request {
    let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), value));
    Request::Internal(Message {
        method: "POST".to_owned(),
        target: path.to_owned(),
        headers: headers.collect(),
        body: body.into(),
    })
}

impl Transport for Wire {
    fn call<'a>(
        &'a self,
        to: &'a Member,
        kind: RpcKind,
        envelope: RpcEnvelope,
        body: Bytes,
        deadline: Duration,
    ) -> BoxFuture<'a, Result<Bytes, TransportError>> {
        Box::pin(async move {
            match self.send(&to.internal, Request::Raft(kind, envelope, body), deadline).await {
                Ok(Reply::Raft(answer)) => answer.map_err(TransportError::Refused),
                Ok(Reply::Http { .. }) => Err(TransportError::Refused("no replica".to_owned())),
                Err(CallError::Unreachable) => Err(TransportError::Unreachable("no connection".to_owned())),
                Err(CallError::Broken) => Err(TransportError::Broken("reset".to_owned())),
                Err(CallError::Timeout(after)) => Err(TransportError::Timeout(after)),
            }
        })
    }
}

impl ExecutorLink for Wire {
    fn post<'a>(
        &'a self,
        target: &'a Target,
        path: &'static str,
        body: Vec<u8>,
        deadline: Duration,
    ) -> BoxFuture<'a, Result<Vec<u8>, LinkError>> {
        Box::pin(async move {
            match self.send(&target.address, post(path, Vec::new(), body), deadline).await {
                Ok(Reply::Http { status: 200, body, .. }) => Ok(body.to_vec()),
                Ok(Reply::Http { status, body, .. }) => {
                    Err(LinkError::Refused { status, code: crate::client::code(&body) })
                }
                Ok(Reply::Raft(_)) => Err(LinkError::Malformed("no executor".to_owned())),
                Err(error) => Err(LinkError::NoAnswer(error.to_string())),
            }
        })
    }
}

impl CallbackLink for Wire {
    fn post(&self, post: Post) -> BoxFuture<'_, SendOutcome> {
        Box::pin(async move {
            let headers = post.headers.into_iter().map(|(name, value)| (name.to_owned(), value));
            let message = Message {
                method: "POST".to_owned(),
                target: post.destination.target(),
                headers: headers.collect(),
                body: post.body.into(),
            };
            if post.destination.host() != SINK_NAME {
                return SendOutcome::failed(FailureKind::Dns);
            }
            let request = Request::Callback(message);
            match self.net.call(self.place, Place::Sink, request, CALLBACK_DEADLINE).await {
                Ok(Reply::Http { status: status @ 200..=299, .. }) => SendOutcome::Delivered { status },
                Ok(Reply::Http { status, .. }) => SendOutcome::Failed {
                    kind: FailureKind::Status,
                    status: Some(status),
                    retry_after_ms: None,
                },
                Ok(Reply::Raft(_)) | Err(CallError::Unreachable | CallError::Broken) => {
                    SendOutcome::failed(FailureKind::Connect)
                }
                Err(CallError::Timeout(_)) => SendOutcome::failed(FailureKind::Timeout),
            }
        })
    }
}

impl Carrier for Wire {
    fn post(&self, call: PeerCall) -> BoxFuture<'_, Result<PeerAnswer, ForwardError>> {
        Box::pin(async move {
            let request = post(call.path, call.headers, call.body);
            match self.send(&call.address, request, call.deadline).await {
                Ok(Reply::Http { status, headers, body }) => Ok(PeerAnswer { status, headers, body }),
                Ok(Reply::Raft(_)) | Err(CallError::Unreachable) => Err(ForwardError::NotTaken),
                Err(CallError::Broken | CallError::Timeout(_)) => Err(ForwardError::Broken),
            }
        })
    }
}
