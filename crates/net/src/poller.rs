// SPDX-License-Identifier: BSD-3-Clause
//! The poller: epoll, level-triggered.
//!
//! Level triggering lets a loop stop reading a socket at any point and get the event again in its
//! next turn.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

/// The events that a descriptor is polled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interest {
    /// Only whether the connection is broken.
    Neither,
    Read,
    Write,
    ReadWrite,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Interest::Neither => EventFlags::empty(),
            Interest::Read => EventFlags::IN,
            Interest::Write => EventFlags::OUT,
            Interest::ReadWrite => EventFlags::IN | EventFlags::OUT,
        }
    }
}

/// One ready descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// As given on registration.
    pub token: u64,
    pub readable: bool,
    pub writable: bool,
}

/// An epoll instance with room for the events of one wait.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    waits: u64,
}

/// Events taken by one wait; more are reported by the next.
const EVENTS: usize = 1024;

impl Poller {
    /// A new poller.
    ///
    /// # Errors
    /// If the process is out of file descriptors.
    pub fn new() -> io::Result<Poller> {
        Ok(Poller::on(Poller::open()?))
    }

    /// Opens the epoll instance for a poller, at a point where failure is still cheap.
    ///
    /// # Errors
    /// If the process is out of file descriptors.
    pub fn open() -> io::Result<OwnedFd> {
        Ok(epoll::create(CreateFlags::CLOEXEC)?)
    }

    /// A poller on an instance from [`Poller::open`].
    pub fn on(epoll: OwnedFd) -> Poller {
        Poller { epoll, events: Vec::with_capacity(EVENTS), waits: 0 }
    }

    /// Starts watching a descriptor.
    ///
    /// # Errors
    /// If the descriptor is already watched or cannot be watched (a regular file), or the kernel's
    /// limit of watches is reached.
    pub fn add(&self, descriptor: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, descriptor, EventData::new_u64(token), interest.flags())?)
    }

    /// Changes a descriptor's interest.
    ///
    /// # Errors
    /// If the descriptor is not watched.
    pub fn modify(&self, descriptor: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, descriptor, EventData::new_u64(token), interest.flags())?)
    }

    /// Stops watching a descriptor.
    ///
    /// # Errors
    /// If the descriptor is not watched.
    pub fn remove(&self, descriptor: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, descriptor)?)
    }

    /// As [`Poller::remove`], by the descriptor's number.
    ///
    /// # Errors
    /// If the descriptor is not watched.
    ///
    /// # Safety
    /// The descriptor must be open, and stay open during the call.
    pub unsafe fn remove_by_number(&self, descriptor: RawFd) -> io::Result<()> {
        // SAFETY: the caller guarantees it.
        self.remove(unsafe { BorrowedFd::borrow_raw(descriptor) })
    }

    /// Waits for events until the timeout; without a timeout, indefinitely. Returns the number of
    /// events: 0 after a timeout or an interruption.
    ///
    /// # Errors
    /// If the kernel refuses the wait, which a valid poller does not see: an interruption counts as
    /// no events.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        self.events.clear();
        self.waits += 1;
        let timeout = timeout.map(|time| Timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(count) => Ok(count),
            Err(rustix::io::Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Number of waits so far. A change while the caller walks the events of one wait shows that
    /// another wait has replaced them.
    pub fn waits(&self) -> u64 {
        self.waits
    }

    /// An event of the last wait.
    pub fn event(&self, index: usize) -> Event {
        let event = &self.events[index];
        let flags = event.flags;
        let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        Event {
            token: event.data.u64(),
            readable: broken || flags.contains(EventFlags::IN),
            writable: broken || flags.contains(EventFlags::OUT),
        }
    }
}
