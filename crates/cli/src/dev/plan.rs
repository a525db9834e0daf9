//! What a demo cluster consists of: its processes, their ports and folders. Drawn up at the first start,
//! kept in the cluster's folder, and followed by every later start.

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rand::RngExt as _;
use serde::{Deserialize, Serialize};

use crate::secret;

/// The most replicas of a demo cluster.
pub const MAX_REPLICAS: u8 = 9;
/// The most executors of a demo cluster.
pub const MAX_EXECUTORS: u8 = 50;

/// The processes of a demo cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Plan {
    /// The scheduler replicas.
    pub replicas: Vec<Replica>,
    /// The executors.
    pub executors: Vec<Executor>,
}

/// A scheduler replica on loopback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Replica {
    /// The id under which it first boots.
    pub id: u64,
    /// Port of its public listener.
    pub api_port: u16,
    /// Port of its internal listener.
    pub internal_port: u16,
    /// Whether its listeners speak TLS.
    #[serde(default)]
    pub tls: bool,
}

/// An executor on loopback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Executor {
    /// Its id.
    pub id: String,
    /// Port of its listener.
    pub port: u16,
}

impl Replica {
    /// The base URL of its public listener.
    pub fn api(&self) -> String {
        format!("{}://127.0.0.1:{}", if self.tls { "https" } else { "http" }, self.api_port)
    }

    /// `host:port` of its public listener.
    pub fn listen_api(&self) -> String {
        format!("127.0.0.1:{}", self.api_port)
    }

    /// `host:port` of its internal listener.
    pub fn internal(&self) -> String {
        format!("127.0.0.1:{}", self.internal_port)
    }

    /// Its name in file names and messages.
    pub fn name(&self) -> String {
        format!("replica-{}", self.id)
    }
}

impl Executor {
    /// `host:port` of its listener.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

/// What the user asks for; `None` takes what the folder has, else the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wish {
    /// First port; 0 takes free ones.
    pub base_port: Option<u16>,
    /// How many replicas.
    pub replicas: Option<u8>,
    /// How many executors.
    pub executors: Option<u8>,
    /// Whether everything speaks TLS.
    pub tls: bool,
}

const DEFAULT_BASE_PORT: u16 = 7070;
const DEFAULT_REPLICAS: u8 = 3;
const DEFAULT_EXECUTORS: u8 = 2;

impl Plan {
    /// The plan of the cluster in the folder of `layout`: the one kept there, or a new one.
    ///
    /// # Errors
    /// A wish that contradicts the plan kept there, a plan that cannot be read, no free ports.
    pub fn load_or_make(layout: &Layout, wish: Wish) -> anyhow::Result<Plan> {
        let path = layout.plan();
        let plan = match fs::read_to_string(&path) {
            Ok(text) => {
                let plan: Plan =
                    toml::from_str(&text).with_context(|| format!("cannot read {}", path.display()))?;
                plan.check_wish(wish, layout)?;
                return Ok(plan);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Plan::make(wish, &mut Ports::of(wish))?,
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        secret::write_public(&path, &toml::to_string_pretty(&plan)?)?;
        Ok(plan)
    }

    /// Whether its processes speak TLS.
    pub fn tls(&self) -> bool {
        self.replicas.iter().any(|replica| replica.tls)
    }

    fn make(wish: Wish, ports: &mut Ports) -> anyhow::Result<Plan> {
        let replicas = within("replicas", wish.replicas.unwrap_or(DEFAULT_REPLICAS), 1, MAX_REPLICAS)?;
        let executors = within("executors", wish.executors.unwrap_or(DEFAULT_EXECUTORS), 0, MAX_EXECUTORS)?;
        let replica = |id| -> anyhow::Result<Replica> {
            Ok(Replica { id, api_port: ports.next()?, internal_port: ports.next()?, tls: wish.tls })
        };
        let replicas = (1..=u64::from(replicas)).map(replica).collect::<anyhow::Result<_>>()?;
        let executor = |number| -> anyhow::Result<Executor> {
            Ok(Executor { id: format!("executor-{number}"), port: ports.next()? })
        };
        let executors = (1..=executors).map(executor).collect::<anyhow::Result<_>>()?;
        Ok(Plan { replicas, executors })
    }

    fn check_wish(&self, wish: Wish, layout: &Layout) -> anyhow::Result<()> {
        let asked = [
            ("replicas", wish.replicas, self.replicas.len()),
            ("executors", wish.executors, self.executors.len()),
        ];
        for (option, wanted, have) in asked {
            if wanted.is_some_and(|wanted| usize::from(wanted) != have) {
                bail!(
                    "--{option} {} differs from the cluster in {}, which has {have}: leave the option out, or give another --dir",
                    wanted.unwrap_or_default(),
                    layout.dir.display(),
                );
            }
        }
        if wish.tls && !self.tls() {
            bail!("--tls differs from the cluster in {}: give another --dir", layout.dir.display());
        }
        let first = self.replicas.first().map(|replica| replica.api_port);
        match wish.base_port {
            Some(port) if port != 0 && Some(port) != first => bail!(
                "--base-port {port} differs from the cluster in {}, which begins at {}: leave the option out, or give another --dir",
                layout.dir.display(),
                first.unwrap_or_default(),
            ),
            _ => Ok(()),
        }
    }
}

fn within(option: &str, value: u8, low: u8, high: u8) -> anyhow::Result<u8> {
    if (low..=high).contains(&value) {
        Ok(value)
    } else {
        bail!("--{option} {value} is outside {low}-{high}")
    }
}

/// Where the ports come from.
enum Ports {
    /// One after the other.
    From(u16),
    /// Free ones, never twice the same.
    Free(Vec<u16>),
}

impl Ports {
    fn of(wish: Wish) -> Ports {
        match wish.base_port.unwrap_or(DEFAULT_BASE_PORT) {
            0 => Ports::Free(Vec::new()),
            first => Ports::From(first),
        }
    }

    fn next(&mut self) -> anyhow::Result<u16> {
        match self {
            Ports::From(next) => {
                let port = *next;
                *next = port.checked_add(1).context("--base-port: the ports run out at 65535")?;
                Ok(port)
            }
            Ports::Free(taken) => {
                let port = free_port(taken)?;
                taken.push(port);
                Ok(port)
            }
        }
    }
}

/// A port that nobody listens on now and that the system will not hand out to outgoing connections, so that
/// a process that is started again later still finds it free.
fn free_port(taken: &[u16]) -> anyhow::Result<u16> {
    const LOWEST: u16 = 10_000;
    const TRIES: u32 = 1_000;
    let highest = first_ephemeral_port().max(LOWEST + 1_000);
    for _ in 0..TRIES {
        let port = rand::rng().random_range(LOWEST..highest);
        if !taken.contains(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port on 127.0.0.1 between {LOWEST} and {highest} after {TRIES} tries")
}

fn first_ephemeral_port() -> u16 {
    const LINUX_DEFAULT: u16 = 32_768;
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    range.split_whitespace().next().and_then(|low| low.parse().ok()).unwrap_or(LINUX_DEFAULT)
}

/// Where things lie in the folder of a demo cluster.
#[derive(Debug, Clone)]
pub struct Layout {
    dir: PathBuf,
}

impl Layout {
    /// The layout of this folder, which must exist.
    pub fn new(dir: &Path) -> std::io::Result<Layout> {
        Ok(Layout { dir: dir.canonicalize()? })
    }

    /// The folder itself.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Locked while a supervisor runs.
    pub fn lock(&self) -> PathBuf {
        self.dir.join("lock")
    }

    /// Secrets, 0600.
    pub fn secret(&self, name: &str) -> PathBuf {
        self.dir.join("secrets").join(name)
    }

    /// Certificates and their keys.
    pub fn certificates(&self) -> PathBuf {
        self.dir.join("certificates")
    }

    /// The configuration file of a process.
    pub fn config(&self, process: &str) -> PathBuf {
        self.dir.join("config").join(format!("{process}.toml"))
    }

    /// The log of a process.
    pub fn log(&self, process: &str) -> PathBuf {
        self.dir.join("logs").join(format!("{process}.log"))
    }

    /// The data of a process.
    pub fn data(&self, process: &str) -> PathBuf {
        self.dir.join(process)
    }

    fn plan(&self) -> PathBuf {
        self.dir.join("plan.toml")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> (tempfile::TempDir, Layout) {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path()).unwrap();
        (dir, layout)
    }

    #[test]
    fn a_second_start_follows_the_plan_of_the_first() {
        let (_dir, layout) = layout();
        let wish = Wish { base_port: Some(0), executors: Some(4), ..Wish::default() };
        let first = Plan::load_or_make(&layout, wish).unwrap();
        assert_eq!((first.replicas.len(), first.executors.len()), (3, 4));
        assert_eq!(Plan::load_or_make(&layout, Wish::default()).unwrap(), first);
        assert_eq!(Plan::load_or_make(&layout, wish).unwrap(), first);
    }

    #[test]
    fn a_wish_that_contradicts_the_plan_is_refused() {
        let (_dir, layout) = layout();
        Plan::load_or_make(&layout, Wish { base_port: Some(9000), ..Wish::default() }).unwrap();
        let cases = [
            (Wish { replicas: Some(5), ..Wish::default() }, "--replicas 5"),
            (Wish { executors: Some(0), ..Wish::default() }, "--executors 0"),
            (Wish { tls: true, ..Wish::default() }, "--tls"),
            (Wish { base_port: Some(9100), ..Wish::default() }, "--base-port 9100"),
        ];
        for (wish, named) in cases {
            let error = Plan::load_or_make(&layout, wish).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn ports_count_up_from_the_base_and_never_repeat() {
        let (_dir, layout) = layout();
        let plan = Plan::load_or_make(&layout, Wish::default()).unwrap();
        assert_eq!(plan.replicas[0].api(), "http://127.0.0.1:7070");
        assert_eq!(plan.executors[1].port, 7077);
        let mut free = Ports::Free(Vec::new());
        let mut ports: Vec<u16> = (0..20).map(|_| free.next().unwrap()).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 20);
        assert!(Ports::From(65_535).next().is_err());
    }

    #[test]
    fn numbers_out_of_bounds_are_named() {
        let (_dir, layout) = layout();
        for wish in
            [Wish { replicas: Some(0), ..Wish::default() }, Wish { executors: Some(51), ..Wish::default() }]
        {
            let error = Plan::load_or_make(&layout, wish).unwrap_err().to_string();
            assert!(error.contains("is outside"), "{error}");
        }
    }
}
