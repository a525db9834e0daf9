//! What members say to each other, in stable forms. A call is one request and one reply, each in a frame.

use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest, VoteResponse,
};
use orloj_model::id::NodeId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use bytes::Bytes;

use crate::codec::{self, CodecError, Schema};
use crate::failure::RpcError;
use crate::snapshot::Manifest;
use crate::stored::{StoredEntry, StoredLogId, StoredVote};
use crate::types::{LogId, Member, TypeConfig, Vote};

/// Log entries, or a heartbeat without any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Append {
    /// The leader's vote.
    pub vote: StoredVote,
    /// The entry in front of the first one sent.
    pub prev: Option<StoredLogId>,
    /// The entries.
    pub entries: Vec<StoredEntry>,
    /// What the leader knows to be committed.
    pub committed: Option<StoredLogId>,
}

/// The answer to [`Append`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AppendReply {
    /// All entries are on the disk.
    Success,
    /// The entries up to this one are.
    Partial(Option<StoredLogId>),
    /// The entry in front is not here, or is another one.
    Conflict,
    /// A newer leader or candidate is known here.
    HigherVote(StoredVote),
}

/// A candidate's question, or what it would ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskVote {
    /// The vote that is asked for.
    pub vote: StoredVote,
    /// The last entry of the candidate.
    pub last: Option<StoredLogId>,
    /// The leader asked the candidate to stand.
    pub transfer: bool,
}

/// The answer to [`AskVote`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoteReply {
    /// The vote that holds here now.
    pub vote: StoredVote,
    /// The last entry here.
    pub last: Option<StoredLogId>,
    /// The vote is given.
    pub granted: bool,
}

/// The leader hands over to `to`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// The leader's vote.
    pub from: StoredVote,
    /// Who shall lead.
    pub to: NodeId,
    /// The last entry of the leader.
    pub last: Option<StoredLogId>,
}

/// The answer to [`Transfer`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransferReply {
    /// Taken.
    Taken,
    /// Another vote holds here.
    VoteChanged(StoredVote),
    /// The log here is behind.
    Behind(Option<StoredLogId>),
}

/// A step of sending a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SendSnapshot {
    /// The first, and the first after a broken transfer.
    Begin {
        /// The leader's vote.
        vote: StoredVote,
        /// What will be sent.
        manifest: Box<Manifest>,
    },
    /// A piece of a file.
    Piece {
        /// The leader's vote.
        vote: StoredVote,
        /// The file's place in the manifest.
        file: u32,
        /// Where the piece belongs.
        offset: u64,
        /// CRC-32 (IEEE) of the piece.
        crc: u32,
        /// The piece.
        data: Bytes,
    },
    /// All has been sent: install it.
    Finish {
        /// The leader's vote.
        vote: StoredVote,
    },
}

/// The answer to [`SendSnapshot`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SnapshotReply {
    /// Bytes of each file that are here, from its beginning.
    Have(Vec<u64>),
    /// The piece is written.
    Written,
    /// Installed, or not needed any more; the vote that holds here now.
    Done(StoredVote),
    /// Start again, and why.
    Again(String),
}

/// Who is at an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probed {
    /// Its id, once it has one.
    pub id: Option<NodeId>,
    /// Its birth token.
    pub birth: String,
    /// Whether it has had a vote.
    pub entered: bool,
    /// The members with which it is configured to boot for the first time: id and internal address, by id.
    pub seeds: Vec<(NodeId, String)>,
    /// The id under which it is configured to do so.
    pub seed_id: NodeId,
    /// Its addresses.
    pub internal: String,
    /// Base URL of its public listener.
    pub api: String,
    /// The members that it knows, by id; empty before the first boot.
    pub members: Vec<(NodeId, Member)>,
    /// The leader that it knows.
    pub leader: Option<NodeId>,
}

/// A node without data asks to be let in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// The id that it was given by an earlier call.
    pub id: Option<NodeId>,
    /// Its addresses and its birth token.
    pub member: Member,
}

/// The answer to [`Join`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JoinReply {
    /// Write this id down, start under it and ask again with it.
    Assigned(NodeId),
    /// Catching up; ask again.
    CatchingUp,
    /// The node has a vote.
    Member,
    /// Ask that one.
    NotLeader(Option<Member>),
    /// Not now (or not at all), and why.
    Refused(String),
}

/// A leader gives an id to a node without data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adopt {
    /// The id.
    pub id: NodeId,
    /// The birth token that the leader believes it to have.
    pub birth: String,
}

/// The answer to [`Adopt`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdoptReply {
    /// The id is written down.
    Taken,
    /// It has another id or another birth.
    Refused(String),
}

/// Encodes a request.
///
/// # Errors
/// It is larger than a message may be.
pub fn request<T: Serialize>(message: &T) -> Result<Bytes, CodecError> {
    codec::encode(Schema::RpcRequest, message).map(Bytes::from)
}

/// Decodes a reply.
///
/// # Errors
/// It is no reply to this request.
pub fn read_reply<T: DeserializeOwned>(body: &[u8]) -> Result<T, CodecError> {
    codec::decode(Schema::RpcReply, body)
}

/// Decodes a request.
///
/// # Errors
/// It is malformed.
pub fn read_request<T: DeserializeOwned>(body: &[u8]) -> Result<T, RpcError> {
    codec::decode(Schema::RpcRequest, body).map_err(|error| RpcError::Malformed(error.to_string()))
}

/// Encodes a reply.
///
/// # Errors
/// It is larger than a message may be.
pub fn reply<T: Serialize>(message: &T) -> Result<Bytes, RpcError> {
    let encoded = codec::encode(Schema::RpcReply, message);
    encoded.map(Bytes::from).map_err(|error| RpcError::Malformed(error.to_string()))
}

fn id(stored: Option<StoredLogId>) -> Option<LogId> {
    stored.map(LogId::from)
}

fn stored(id: Option<&LogId>) -> Option<StoredLogId> {
    id.map(StoredLogId::from)
}

impl From<&AppendEntriesRequest<TypeConfig>> for Append {
    fn from(request: &AppendEntriesRequest<TypeConfig>) -> Self {
        Append {
            vote: (&request.vote).into(),
            prev: stored(request.prev_log_id.as_ref()),
            entries: request.entries.iter().map(StoredEntry::from).collect(),
            committed: stored(request.leader_commit.as_ref()),
        }
    }
}

impl Append {
    /// The request that was sent.
    ///
    /// # Errors
    /// An entry holds a membership that cannot be.
    pub fn into_request(self) -> Result<AppendEntriesRequest<TypeConfig>, RpcError> {
        let entries = self.entries.into_iter().map(StoredEntry::into_entry);
        Ok(AppendEntriesRequest {
            vote: self.vote.into(),
            prev_log_id: id(self.prev),
            entries: entries
                .collect::<Result<_, _>>()
                .map_err(|error| RpcError::Malformed(error.to_string()))?,
            leader_commit: id(self.committed),
        })
    }
}

impl From<AppendEntriesResponse<TypeConfig>> for AppendReply {
    fn from(response: AppendEntriesResponse<TypeConfig>) -> Self {
        match response {
            AppendEntriesResponse::Success => AppendReply::Success,
            AppendEntriesResponse::PartialSuccess(last) => AppendReply::Partial(stored(last.as_ref())),
            AppendEntriesResponse::Conflict => AppendReply::Conflict,
            AppendEntriesResponse::HigherVote(vote) => AppendReply::HigherVote((&vote).into()),
        }
    }
}

impl From<AppendReply> for AppendEntriesResponse<TypeConfig> {
    fn from(reply: AppendReply) -> Self {
        match reply {
            AppendReply::Success => AppendEntriesResponse::Success,
            AppendReply::Partial(last) => AppendEntriesResponse::PartialSuccess(id(last)),
            AppendReply::Conflict => AppendEntriesResponse::Conflict,
            AppendReply::HigherVote(vote) => AppendEntriesResponse::HigherVote(vote.into()),
        }
    }
}

impl From<&VoteRequest<TypeConfig>> for AskVote {
    fn from(request: &VoteRequest<TypeConfig>) -> Self {
        AskVote {
            vote: (&request.vote).into(),
            last: stored(request.last_log_id.as_ref()),
            transfer: request.leadership_transfer,
        }
    }
}

impl From<AskVote> for VoteRequest<TypeConfig> {
    fn from(ask: AskVote) -> Self {
        let mut request = VoteRequest::new(Vote::from(ask.vote), id(ask.last));
        request.leadership_transfer = ask.transfer;
        request
    }
}

impl From<VoteResponse<TypeConfig>> for VoteReply {
    fn from(response: VoteResponse<TypeConfig>) -> Self {
        VoteReply {
            vote: (&response.vote).into(),
            last: stored(response.last_log_id.as_ref()),
            granted: response.vote_granted,
        }
    }
}

impl From<VoteReply> for VoteResponse<TypeConfig> {
    fn from(reply: VoteReply) -> Self {
        VoteResponse::new(Vote::from(reply.vote), id(reply.last), reply.granted)
    }
}

impl From<&TransferLeaderRequest<TypeConfig>> for Transfer {
    fn from(request: &TransferLeaderRequest<TypeConfig>) -> Self {
        Transfer {
            from: request.from_leader().into(),
            to: *request.to_node_id(),
            last: stored(request.last_log_id()),
        }
    }
}

impl From<Transfer> for TransferLeaderRequest<TypeConfig> {
    fn from(transfer: Transfer) -> Self {
        TransferLeaderRequest::new(transfer.from.into(), transfer.to, id(transfer.last))
    }
}
