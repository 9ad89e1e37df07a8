//! Places where the model waits until the test goes on.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// A place in an answer where the model waits. Clones are the same gate; once open it stays open.
#[derive(Debug, Clone)]
pub struct Gate {
    reached: Arc<Semaphore>,
    opened: Arc<Semaphore>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { reached: Arc::new(Semaphore::new(0)), opened: Arc::new(Semaphore::new(0)) }
    }
}

impl Gate {
    /// Waits until the model stands at the gate; each call waits for one more answer to come there.
    pub async fn reached(&self) {
        // The semaphore is never closed, so this cannot fail.
        if let Ok(permit) = self.reached.acquire().await {
            permit.forget();
        }
    }

    /// Lets every answer pass from now on.
    pub fn open(&self) {
        self.opened.add_permits(1);
    }

    pub(super) async fn pass(&self) {
        self.reached.add_permits(1);
        let _permit = self.opened.acquire().await;
    }
}
