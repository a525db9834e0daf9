//! Both ends of TLS against each other, over real sockets.

use std::convert::Infallible;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Request, Response};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::accept::{Admission, ServerTls};
use crate::cluster::ClusterTls;
use crate::dial::{Clients, Protocol};
use crate::issue::Issued;
use crate::material::provider;
use crate::serve::{Bounds, serve};
use crate::testing::{DAY, Ours, authority};

/// One end with its folder.
struct End {
    dir: TempDir,
    tls: Arc<Tls>,
}

impl End {
    fn new(ours: &Ours, issued: &Issued) -> End {
        let dir = tempfile::tempdir().unwrap();
        let tls = Tls::load(ours.write(dir.path(), issued)).unwrap();
        End { dir, tls }
    }
}

/// A listener that answers with whom the caller's certificate names.
async fn listen(end: &End, admission: Admission) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = tower::service_fn(|request: Request<Incoming>| async move {
        let peer = request.extensions().get::<Peer>().cloned().unwrap();
        Ok::<_, Infallible>(Response::new(peer.to_string()))
    });
    let server = ServerTls::new(Arc::clone(&end.tls), admission).unwrap();
    tokio::spawn(serve(listener, service, Bounds::INTERNAL, Some(server), CancellationToken::new()));
    address
}

/// What a caller of `role` and `name` hears; the names of all causes where it hears nothing.
async fn call(from: &End, address: SocketAddr, role: Role, name: &str) -> Result<String, String> {
    let own = ClusterTls { tls: Arc::clone(&from.tls), cluster: "blue".to_owned() };
    let make = || reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(10));
    let clients = Clients::new(Some(&own), role, Protocol::Http2, make).unwrap();
    let client = clients.to(name).unwrap();
    let sent = client.get(format!("{}://{address}/", clients.scheme())).send().await;
    match sent {
        Ok(answer) => answer.text().await.map_err(|error| error.to_string()),
        Err(error) => Err(format!("{error:?}")),
    }
}

const REPLICA: &str = "127.0.0.1:7071";

#[tokio::test]
async fn each_side_knows_who_the_other_is() {
    let ours = authority("blue");
    let server = End::new(&ours, &ours.issue("replica", REPLICA));
    let caller = End::new(&ours, &ours.issue("executor", "e1"));
    let address = listen(&server, Admission::Required).await;
    let heard = call(&caller, address, Role::Replica, REPLICA).await;
    assert_eq!(heard.as_deref(), Ok("orloj://blue/executor/e1"));
}

#[tokio::test]
async fn a_server_that_is_another_is_not_called() {
    let ours = authority("blue");
    let server = End::new(&ours, &ours.issue("replica", REPLICA));
    let caller = End::new(&ours, &ours.issue("replica", "127.0.0.1:7073"));
    let address = listen(&server, Admission::Required).await;
    for (role, name) in [(Role::Replica, "127.0.0.1:7075"), (Role::Executor, REPLICA), (Role::Client, "x")] {
        let error = call(&caller, address, role, name).await.unwrap_err();
        assert!(error.contains("NotValidForName"), "{error}");
    }
    let green = authority("green");
    let same_name = End::new(&green, &green.issue("replica", REPLICA));
    // Also one that the authority has signed, for another cluster.
    let other = End::new(&ours, &green.issue("replica", REPLICA));
    drop(same_name);
    let address = listen(&other, Admission::Anyone).await;
    assert!(call(&caller, address, Role::Replica, REPLICA).await.is_err());
}

#[tokio::test]
async fn a_wrong_authority_counts_on_neither_side() {
    let (ours, theirs) = (authority("blue"), authority("blue"));
    let server = End::new(&ours, &ours.issue("replica", REPLICA));
    let stranger = End::new(&theirs, &theirs.issue("executor", "e1"));
    let address = listen(&server, Admission::Required).await;
    let error = call(&stranger, address, Role::Replica, REPLICA).await.unwrap_err();
    // Two authorities of one cluster differ in their keys alone.
    assert!(error.contains("BadSignature") || error.contains("UnknownIssuer"), "{error}");
    // One that trusts us, and whom we do not trust.
    let half = End::new(&ours, &theirs.issue("executor", "e1"));
    let error = call(&half, address, Role::Replica, REPLICA).await.unwrap_err();
    assert!(
        error.contains("UnknownCA") || error.contains("DecryptError") || error.contains("alert"),
        "{error}"
    );
}

/// A handshake and a request without our own checks before them.
async fn raw(ours: &Ours, issued: Option<&Issued>, address: SocketAddr) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ours.files.cert.as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match issued {
        None => builder.with_no_client_auth(),
        Some(issued) => {
            let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![issued.der().into()], key).unwrap()
        }
    };
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

#[tokio::test]
async fn an_expired_certificate_is_refused_by_its_owner_and_by_others() {
    let ours = authority("blue");
    let now = crate::material::now_s();
    let expired = ours.issue_between("executor", "e1", now - 2 * DAY, now - DAY);
    let early = ours.issue_between("executor", "e1", now + DAY, now + 2 * DAY);
    for (issued, told) in [(&expired, "has expired"), (&early, "good only from")] {
        let dir = tempfile::tempdir().unwrap();
        let error = Tls::load(ours.write(dir.path(), issued)).unwrap_err().to_string();
        assert!(error.contains("cert.pem") && error.contains(told), "{error}");
    }
    let server = End::new(&ours, &ours.issue("replica", REPLICA));
    let address = listen(&server, Admission::Required).await;
    assert!(raw(&ours, Some(&expired), address).await.is_err());
    assert!(raw(&ours, None, address).await.is_err(), "a certificate is required");
    let good = raw(&ours, Some(&ours.issue("executor", "e1")), address).await.unwrap();
    assert!(good.ends_with("orloj://blue/executor/e1"), "{good}");
    let optional = listen(&server, Admission::Optional).await;
    assert!(raw(&ours, None, optional).await.unwrap().ends_with("nobody of a cluster"));
    assert!(raw(&ours, Some(&expired), optional).await.is_err(), "a bad one is worse than none");
}

#[tokio::test]
async fn who_speaks_in_clear_on_a_port_of_tls_is_told() {
    let ours = authority("blue");
    let server = End::new(&ours, &ours.issue("replica", REPLICA));
    let address = listen(&server, Admission::Required).await;
    let answer =
        reqwest::Client::builder().no_proxy().build().unwrap().get(format!("http://{address}/")).send();
    let answer = answer.await.unwrap();
    assert_eq!(answer.status().as_u16(), 400);
    assert!(answer.text().await.unwrap().contains("https://"));
}

#[tokio::test]
async fn new_files_are_taken_and_bad_ones_are_not() {
    let (old, new) = (authority("blue"), authority("blue"));
    let server = End::new(&old, &old.issue("replica", REPLICA));
    let caller = End::new(&new, &new.issue("executor", "e1"));
    let address = listen(&server, Admission::Required).await;
    assert!(call(&caller, address, Role::Replica, REPLICA).await.is_err());
    assert!(!server.tls.reload().unwrap(), "nothing has changed");
    // What cannot be used changes nothing.
    fs::write(server.dir.path().join("cert.pem"), "no certificate").unwrap();
    assert!(server.tls.reload().is_err());
    new.write(server.dir.path(), &new.issue("replica", "127.0.0.1:1"));
    let error = server.tls.reload().unwrap_err().to_string();
    assert!(error.contains("127.0.0.1:1") && error.contains(REPLICA), "{error}");
    assert!(call(&caller, address, Role::Replica, REPLICA).await.is_err());
    // A hint is enough, whatever the period.
    new.write(server.dir.path(), &new.issue("replica", REPLICA));
    let (hint, hints) = watch::channel(());
    let stop = CancellationToken::new();
    let day = Duration::from_secs(86_400);
    let fresh = tokio::spawn(Arc::clone(&server.tls).keep_fresh(day, hints, stop.clone()));
    hint.send_replace(());
    let heard = tokio::time::timeout(Duration::from_secs(10), async {
        loop {
            match call(&caller, address, Role::Replica, REPLICA).await {
                Ok(heard) => return heard,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    });
    assert_eq!(heard.await.unwrap(), "orloj://blue/executor/e1");
    stop.cancel();
    fresh.await.unwrap();
}

#[test]
fn what_the_files_hold_is_checked_by_name() {
    use std::os::unix::fs::PermissionsExt as _;
    let ours = authority("blue");
    let dir = tempfile::tempdir().unwrap();
    let files = ours.write(dir.path(), &ours.issue("executor", "e1"));
    let own = Identity::new("blue", Role::Executor, "e1").unwrap();
    assert!(Tls::load_as(files.clone(), &own).is_ok());
    let (_, found) = Tls::load_named(files.clone(), Role::Executor, "e1").unwrap();
    assert_eq!(found, own);
    let error = Tls::load_named(files.clone(), Role::Executor, "e2").unwrap_err().to_string();
    assert!(error.contains("executor/e2") && error.contains("executor/e1"), "{error}");
    let key = dir.path().join("key.pem");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let error = Tls::load(files.clone()).unwrap_err().to_string();
    assert!(error.contains("key.pem") && error.contains("0644"), "{error}");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    for (name, told) in
        [("key.pem", "no private key"), ("cert.pem", "no certificate"), ("ca.pem", "no certificate")]
    {
        let good = fs::read(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name), "hush-hush").unwrap();
        let error = Tls::load(files.clone()).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(told) && !error.contains("hush"), "{error}");
        fs::write(dir.path().join(name), good).unwrap();
    }
    fs::write(&key, ours.issue("executor", "e1").key).unwrap();
    assert!(Tls::load(files).unwrap_err().to_string().contains("does not fit"));
}
