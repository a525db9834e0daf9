//! The thread that carries packets between the TUN devices.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::{Errno, read, write};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

use super::engine::Engine;
use super::packet;

/// Events with these marks are not devices.
const TIMER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;
/// How many packets one device may send before the others get a turn.
const BURST: usize = 64;
/// More than the largest IPv4 packet; the devices' MTU is far below.
const BUFFER: usize = 65_536;

/// The running router. Dropping it stops the thread and so removes the devices.
pub struct Router {
    engine: Arc<Mutex<Engine>>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

struct Wires {
    epoll: OwnedFd,
    timer: OwnedFd,
    devices: Vec<OwnedFd>,
    hosts: HashMap<Ipv4Addr, usize>,
    /// What the timer is set to, in microseconds of the monotonic clock.
    armed: Option<u64>,
}

impl Router {
    /// Starts to carry packets between `devices`, which belong to the addresses of the same index.
    ///
    /// # Errors
    /// When the kernel refuses an epoll, timer or event descriptor, or a thread.
    pub fn start(devices: Vec<OwnedFd>, addresses: &[Ipv4Addr], engine: Engine) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("creating an epoll")?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).context("creating a timer")?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).context("creating an event descriptor")?);
        let marks = [(&timer, TIMER), (&*stop, STOP)];
        let devices_marked = devices.iter().zip(0..);
        for (file, mark) in marks.into_iter().chain(devices_marked) {
            epoll::add(&epoll, file, epoll::EventData::new_u64(mark), epoll::EventFlags::IN)
                .context("watching a descriptor")?;
        }
        let hosts = addresses.iter().copied().zip(0..).collect();
        let engine = Arc::new(Mutex::new(engine));
        let wires = Wires { epoll, timer, devices, hosts, armed: None };
        let shared = Arc::clone(&engine);
        let thread = std::thread::Builder::new()
            .name("fabric".to_string())
            .spawn(move || wires.carry(&shared))
            .context("starting the fabric's thread")?;
        Ok(Self { engine, stop, thread: Some(thread) })
    }

    /// The links, locked: the router stands still meanwhile.
    pub fn engine(&self) -> MutexGuard<'_, Engine> {
        lock(&self.engine)
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        // An event descriptor takes any number below its maximum; nothing else writes to this one.
        let _ = write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(engine: &Mutex<Engine>) -> MutexGuard<'_, Engine> {
    // The engine has no invariant that a panic between two of its calls could break.
    engine.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

impl Wires {
    fn carry(mut self, engine: &Mutex<Engine>) {
        let mut buffer = vec![0u8; BUFFER];
        let mut room = [MaybeUninit::uninit(); 64];
        loop {
            let events = match epoll::wait(&self.epoll, &mut room, None) {
                Ok((events, _)) => events,
                Err(Errno::INTR) => continue,
                Err(error) => {
                    tracing::error!(%error, "the fabric cannot wait for packets: it stands still");
                    return;
                }
            };
            let mut engine = lock(engine);
            for event in events {
                match event.data.u64() {
                    STOP => return,
                    TIMER => {
                        let _ = read(&self.timer, &mut [0u8; 8]);
                        self.armed = None;
                    }
                    device => self.drain(device as usize, &mut engine, &mut buffer),
                }
            }
            self.release(&mut engine);
            self.arm(engine.next_due());
        }
    }

    /// Takes up to [`BURST`] packets from one device.
    fn drain(&self, device: usize, engine: &mut Engine, buffer: &mut [u8]) {
        for _ in 0..BURST {
            let length = match read(&self.devices[device], &mut *buffer) {
                Ok(length) => length,
                Err(Errno::INTR) => continue,
                // Nothing more to read, or the device is down while its host is being removed.
                Err(_) => return,
            };
            let bytes = &mut buffer[..length];
            // Broadcasts, multicast and IPv6 have no receiver here.
            let Some(to) = packet::destination(bytes).and_then(|to| self.hosts.get(&to)) else { continue };
            let mut refused = None;
            engine.offer(now_us(), device, *to, bytes, &mut |from, to, bytes| {
                if write(&self.devices[to], bytes).is_err() {
                    refused = Some((from, to));
                }
            });
            if let Some((from, to)) = refused {
                engine.refused(from, to);
            }
        }
    }

    fn release(&self, engine: &mut Engine) {
        let mut refused = Vec::new();
        engine.release(now_us(), &mut |from, to, bytes| {
            if write(&self.devices[to], bytes).is_err() {
                refused.push((from, to));
            }
        });
        for (from, to) in refused {
            engine.refused(from, to);
        }
    }

    /// Sets the timer to the next packet's time, unless it rings at or before that already.
    fn arm(&mut self, due: Option<u64>) {
        let Some(due) = due else { return };
        if self.armed.is_some_and(|armed| armed <= due) {
            return;
        }
        let at = Timespec { tv_sec: (due / 1_000_000) as i64, tv_nsec: (due % 1_000_000 * 1_000) as i64 };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
        match timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once) {
            Ok(_) => self.armed = Some(due),
            Err(error) => tracing::error!(%error, "the fabric cannot set its timer"),
        }
    }
}
