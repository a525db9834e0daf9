//! The runtime that openraft runs on: tokio, but for its random numbers, which decide who stands for election
//! first. openraft asks for them by a function without a receiver, so that where they come from is a matter
//! of the thread.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use openraft::impls::TokioRuntime;
use openraft::{AsyncRuntime, OptionalSend};
use orloj_model::Random;
use rand::TryRng;
use rand::rngs::ThreadRng;
use tokio::runtime::Handle;

/// Runs a call of openraft to its end, also when whoever waits for it goes away. Of several calls that meet a Raft
/// that has just stopped, one waits for its last task and the others wait for that one: were it dropped half-way,
/// the others would panic.
pub async fn to_its_end<T: Send + 'static>(call: impl Future<Output = T> + Send + 'static) -> T {
    Call(Some(Box::pin(call))).await
}

/// A call that is under way. It runs where it is waited for, and gets a task of its own only when nobody waits any
/// more: nearly every one is waited for, and a task costs it a turn and another thread's waking up.
struct Call<T: Send + 'static>(Option<BoxFuture<'static, T>>);

impl<T: Send + 'static> Future for Call<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // Taken out meanwhile: one that panics has come to its end, too.
        let mut call = self.0.take().expect("a call is not asked again once it has answered");
        let polled = call.as_mut().poll(context);
        if polled.is_pending() {
            self.0 = Some(call);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Call<T> {
    fn drop(&mut self) {
        // Without a runtime everything is going away, Raft as well.
        if let Some(call) = self.0.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(call);
        }
    }
}

thread_local! {
    /// `None` in the product.
    static ELECTIONS: RefCell<Option<Arc<dyn Random>>> = const { RefCell::new(None) };
}

/// Lets the elections of every node that runs on this thread draw from a source, until the next call; without
/// one they draw from the operating system's, as in every thread at first. For a simulation, which has all
/// its nodes on one thread.
pub fn draw_elections_from(source: Option<Arc<dyn Random>>) {
    ELECTIONS.set(source);
}

/// Where openraft's random numbers come from.
pub enum ElectionRng {
    /// From the operating system.
    System(ThreadRng),
    /// From a source that was given.
    Given(Arc<dyn Random>),
}

impl ElectionRng {
    fn of_this_thread() -> ElectionRng {
        let given = ELECTIONS.with_borrow(Option::clone);
        given.map_or_else(|| ElectionRng::System(rand::rng()), ElectionRng::Given)
    }

    fn draw<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let Ok(()) = self.try_fill_bytes(&mut bytes);
        bytes
    }
}

impl TryRng for ElectionRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(u32::from_le_bytes(self.draw()))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(u64::from_le_bytes(self.draw()))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        match self {
            ElectionRng::System(rng) => rng.try_fill_bytes(bytes),
            ElectionRng::Given(source) => {
                source.fill(bytes);
                Ok(())
            }
        }
    }
}

/// tokio with the random numbers of [`ElectionRng`].
#[derive(Debug)]
pub struct Runtime(TokioRuntime);

impl AsyncRuntime for Runtime {
    type JoinError = <TokioRuntime as AsyncRuntime>::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::JoinHandle<T>;
    type Sleep = <TokioRuntime as AsyncRuntime>::Sleep;
    type Instant = <TokioRuntime as AsyncRuntime>::Instant;
    type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = <TokioRuntime as AsyncRuntime>::Timeout<R, T>;
    type ThreadLocalRng = ElectionRng;
    type Mpsc = <TokioRuntime as AsyncRuntime>::Mpsc;
    type Watch = <TokioRuntime as AsyncRuntime>::Watch;
    type Oneshot = <TokioRuntime as AsyncRuntime>::Oneshot;
    type Mutex<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::Mutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        TokioRuntime::spawn(future)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        TokioRuntime::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        TokioRuntime::sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(
        duration: Duration,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(
        deadline: Self::Instant,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout_at(deadline, future)
    }

    fn is_panic(error: &Self::JoinError) -> bool {
        TokioRuntime::is_panic(error)
    }

    fn thread_rng() -> ElectionRng {
        ElectionRng::of_this_thread()
    }

    fn new(threads: usize) -> Self {
        Runtime(TokioRuntime::new(threads))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }
}

#[cfg(test)]
mod tests {
    use orloj_model::random::SeededRandom;
    use rand::RngExt as _;

    use super::*;

    #[test]
    fn a_given_source_decides_until_it_is_taken_away() {
        let draw = |seed: Option<u64>| {
            draw_elections_from(seed.map(|seed| Arc::new(SeededRandom::new(seed)) as Arc<dyn Random>));
            let drawn: Vec<u64> = (0..4).map(|_| Runtime::thread_rng().random()).collect();
            draw_elections_from(None);
            drawn
        };
        assert_eq!(draw(Some(1)), draw(Some(1)));
        assert_ne!(draw(Some(1)), draw(Some(2)));
        assert_ne!(draw(None), draw(None));
    }

    #[tokio::test]
    async fn a_call_comes_to_its_end_without_its_caller() {
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        let (done, mut result) = tokio::sync::oneshot::channel::<u8>();
        let mut call = Box::pin(to_its_end(async move {
            gone.await.unwrap();
            done.send(7).unwrap();
        }));
        assert!(futures_util::poll!(call.as_mut()).is_pending());
        drop(call);
        assert!(result.try_recv().is_err());
        go.send(()).unwrap();
        assert_eq!(result.await, Ok(7));
        assert_eq!(to_its_end(std::future::ready(3)).await, 3, "at once");
    }
}
