//! Threads that read, each with its own connection, so that no read waits for a write.

use std::{
    collections::VecDeque,
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
};

use rusqlite::Connection;
use skein_core::ports::StoreError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::{connection::open_reader, error::Fault, queue::Closed};

/// Reads that may wait at once; further callers wait for their place.
const QUEUE_LENGTH: usize = 256;

type Read = Box<dyn FnOnce(&Connection) + Send>;

/// The reading half of the store.
pub(super) struct Readers {
    queue: Arc<Queue>,
    room: Arc<Semaphore>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    work: Condvar,
}

#[derive(Default)]
struct QueueState {
    reads: VecDeque<(Read, OwnedSemaphorePermit)>,
    is_closed: bool,
}

impl Readers {
    pub(super) fn start(path: &Path, count: usize) -> Result<Self, std::io::Error> {
        let readers = Self {
            queue: Arc::default(),
            room: Arc::new(Semaphore::new(QUEUE_LENGTH)),
            threads: Mutex::default(),
        };
        for _ in 0..count {
            let connection = open_reader(path).map_err(std::io::Error::other)?;
            let queue = Arc::clone(&readers.queue);
            let thread = std::thread::Builder::new()
                .name("skein-read".to_owned())
                .spawn(move || queue.run(&connection))?;
            readers.lock_threads().push(thread);
        }
        Ok(readers)
    }

    /// Runs `work` on one of the threads. A caller that stops waiting takes its read out of the queue.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = Arc::clone(&self.room).acquire_owned().await.map_err(|_| Closed)?;
        let (reply, answer) = oneshot::channel();
        let read: Read = Box::new(move |connection| {
            if !reply.is_closed() {
                let _ = reply.send(work(connection));
            }
        });
        self.queue.push(read, permit)?;
        answer.await.map_err(|_| Closed)?.map_err(StoreError::from)
    }

    /// Lets what is queued finish and ends the threads.
    pub(super) fn close(&self) {
        self.room.close();
        self.queue.lock().is_closed = true;
        self.queue.work.notify_all();
        for thread in std::mem::take(&mut *self.lock_threads()) {
            let _ = thread.join();
        }
    }

    fn lock_threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.close();
    }
}

impl Queue {
    fn push(&self, read: Read, permit: OwnedSemaphorePermit) -> Result<(), Closed> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(Closed);
        }
        state.reads.push_back((read, permit));
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    fn run(&self, connection: &Connection) {
        while let Some((read, permit)) = self.next() {
            // A bug in one read must not take the thread from all others.
            let run = std::panic::AssertUnwindSafe(|| read(connection));
            if std::panic::catch_unwind(run).is_err() {
                tracing::error!("a read panicked");
            }
            drop(permit);
        }
    }

    fn next(&self) -> Option<(Read, OwnedSemaphorePermit)> {
        let mut state = self.lock();
        loop {
            if let Some(next) = state.reads.pop_front() {
                return Some(next);
            }
            if state.is_closed {
                return None;
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
