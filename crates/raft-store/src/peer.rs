//! Calls to the other members: openraft's network over a [`Transport`].

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::{RPCOption, RPCTypes, RaftNetworkFactory, RaftNetworkV2, stream_append_sequential};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderError,
    TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{OptionalSend, alias::SnapshotOf, alias::VoteOf};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::coalesce::coalesced;
use crate::codec::CodecError;
use crate::message::{self, Append, AppendReply, AskVote, Transfer, TransferReply, VoteReply};
use crate::runner::Runner;
use crate::snapshot::Handle;
use crate::stored::StoredVote;
use crate::transport::{RpcEnvelope, RpcKind, Transport, TransportError};
use crate::types::{Member, NodeId, TypeConfig, Vote};

/// Shortest deadline of entries on their way, in milliseconds. openraft would give up after a heartbeat's
/// time, which a slow disk of the follower easily outlasts; the entries would then be sent again for nothing.
const APPEND_DEADLINE_MS: u64 = 2_000;

type AppendResult = Result<StreamAppendResult<TypeConfig>, RPCError<TypeConfig>>;

/// A node's way to its peers.
#[derive(Clone)]
pub struct Link {
    transport: Arc<dyn Transport>,
    cluster: String,
    id: NodeId,
    birth: String,
}

/// Why a call brought no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The call itself failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// Request or answer are not what they should be.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

impl Link {
    /// The way of the node with this id (0: none yet) and birth token.
    pub fn new(transport: Arc<dyn Transport>, cluster: String, id: NodeId, birth: String) -> Self {
        Link { transport, cluster, id, birth }
    }

    /// The same way under another id.
    pub fn under(&self, id: NodeId) -> Self {
        Link { id, ..self.clone() }
    }

    /// Calls a member, or whoever is at the address when the kind of call goes to an address.
    ///
    /// # Errors
    /// No answer, or one that does not decode.
    pub async fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        (target, member): (NodeId, &Member),
        kind: RpcKind,
        request: &Q,
        deadline: Duration,
    ) -> Result<A, CallError> {
        let body: Bytes = message::request(request)?;
        let named = !kind.to_an_address();
        let envelope = RpcEnvelope {
            cluster: self.cluster.clone(),
            target: if named { target } else { 0 },
            target_birth: if named { member.birth.clone() } else { String::new() },
            from: self.id,
            from_birth: self.birth.clone(),
        };
        let answer = self.transport.call(member, kind, envelope, body, deadline).await?;
        Ok(message::read_reply(&answer)?)
    }

    /// Calls whoever is at an address.
    ///
    /// # Errors
    /// No answer, or one that does not decode.
    pub async fn call_address<Q: Serialize, A: DeserializeOwned>(
        &self,
        address: &str,
        kind: RpcKind,
        request: &Q,
        deadline: Duration,
    ) -> Result<A, CallError> {
        let member = Member { internal: address.to_owned(), ..Member::default() };
        self.call((0, &member), kind, request, deadline).await
    }
}

/// Makes a [`Peer`] for each member.
pub struct Peers {
    link: Link,
    chunk_timeout: Duration,
    runner: Arc<dyn Runner>,
}

impl Peers {
    /// Peers of the node that owns the link. A snapshot's transfer is given up after `chunk_timeout` without
    /// an answer.
    pub fn new(link: Link, chunk_timeout: Duration, runner: Arc<dyn Runner>) -> Self {
        Peers { link, chunk_timeout, runner }
    }
}

impl RaftNetworkFactory<TypeConfig> for Peers {
    type Network = Peer;

    async fn new_client(&mut self, target: NodeId, member: &Member) -> Peer {
        Peer {
            link: self.link.clone(),
            target,
            member: member.clone(),
            chunk_timeout: self.chunk_timeout,
            runner: Arc::clone(&self.runner),
        }
    }
}

/// A member, as openraft calls it.
pub struct Peer {
    pub(crate) link: Link,
    pub(crate) target: NodeId,
    pub(crate) member: Member,
    pub(crate) chunk_timeout: Duration,
    pub(crate) runner: Arc<dyn Runner>,
}

impl Peer {
    pub(crate) async fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        kind: RpcKind,
        request: &Q,
        deadline: Duration,
    ) -> Result<A, RPCError<TypeConfig>> {
        let called = self.link.call((self.target, &self.member), kind, request, deadline).await;
        called.map_err(|error| self.explain(kind, error))
    }

    /// What an error means to openraft: it backs off from a member that is unreachable, and tries again at
    /// once after most others.
    fn explain(&self, kind: RpcKind, error: CallError) -> RPCError<TypeConfig> {
        let CallError::Transport(error) = error else {
            return RPCError::Unreachable(Unreachable::new(&error));
        };
        match error {
            TransportError::Timeout(timeout) => RPCError::Timeout(Timeout {
                action: match kind {
                    RpcKind::Append | RpcKind::Heartbeat => RPCTypes::AppendEntries,
                    RpcKind::Snapshot => RPCTypes::InstallSnapshot,
                    RpcKind::Transfer => RPCTypes::TransferLeader,
                    _ => RPCTypes::Vote,
                },
                id: self.link.id,
                target: self.target,
                timeout,
            }),
            TransportError::Broken(_) => RPCError::Network(NetworkError::new(&error)),
            TransportError::Unreachable(_) | TransportError::Refused(_) => {
                RPCError::Unreachable(Unreachable::new(&error))
            }
        }
    }

    async fn ask(
        &self,
        kind: RpcKind,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let reply: VoteReply = self.call(kind, &AskVote::from(&request), option.soft_ttl()).await?;
        Ok(reply.into())
    }
}

impl RaftNetworkV2<TypeConfig> for Peer {
    type SnapshotData = Handle;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        let soft = option.soft_ttl();
        let (kind, deadline) = match request.entries.is_empty() {
            true => (RpcKind::Heartbeat, soft),
            false => (RpcKind::Append, soft.max(Duration::from_millis(APPEND_DEADLINE_MS))),
        };
        let reply: AppendReply = self.call(kind, &Append::from(&request), deadline).await?;
        Ok(reply.into())
    }

    fn stream_append<'s, S>(
        &'s mut self,
        requests: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, AppendResult>, RPCError<TypeConfig>>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + OptionalSend + Unpin + 'static,
    {
        stream_append_sequential(self, coalesced(requests), option)
    }

    async fn vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.ask(RpcKind::Vote, request, option).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.ask(RpcKind::PreVote, request, option).await
    }

    async fn full_snapshot(
        &mut self,
        vote: VoteOf<TypeConfig>,
        snapshot: SnapshotOf<TypeConfig, Handle>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let sent = crate::send::send(self, (&vote).into(), &snapshot.snapshot);
        tokio::select! {
            biased;
            closed = cancel => Err(closed.into()),
            sent = sent => Ok(SnapshotResponse::new(Vote::from(sent?))),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, RPCError<TypeConfig>> {
        let expected = *request.from_leader();
        let expected_log = request.last_log_id().copied();
        let reply = self.call(RpcKind::Transfer, &Transfer::from(&request), option.soft_ttl()).await?;
        Ok(match reply {
            TransferReply::Taken => Ok(()),
            TransferReply::VoteChanged(actual) => {
                Err(TransferLeaderError::VoteChanged { expected, actual: actual.into() })
            }
            TransferReply::Behind(actual) => Err(TransferLeaderError::LogNotFlushed {
                expected: expected_log,
                actual: actual.map(Into::into),
            }),
        })
    }
}

impl From<TransferLeaderResponse<TypeConfig>> for TransferReply {
    fn from(response: TransferLeaderResponse<TypeConfig>) -> Self {
        match response {
            Ok(()) => TransferReply::Taken,
            Err(TransferLeaderError::VoteChanged { actual, .. }) => {
                TransferReply::VoteChanged(StoredVote::from(&actual))
            }
            Err(TransferLeaderError::LogNotFlushed { actual, .. }) => {
                TransferReply::Behind(actual.as_ref().map(Into::into))
            }
        }
    }
}
