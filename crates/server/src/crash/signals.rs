// SPDX-License-Identifier: BSD-3-Clause
//! The part of a crash report that is written inside a signal handler: no lock, no allocation, no
//! state of the process except the buffers prepared here.
//!
//! The crashing thread writes the signal and its call addresses to the log's descriptor, wakes
//! the report thread (the parent module), waits some seconds for it, and then dies of the signal
//! as it would have done without a handler.
//!
//! Memory faults take two steps, because a thread's alternate stack is too small for more than
//! one check: has the thread's own stack overflowed? If not, the second handler is installed and
//! the faulting instruction runs again, this time on the thread's own stack.
//!
//! Invariants behind the `unsafe` here: handlers touch only atomics, the descriptor and their own
//! stack; the functions they call are async-signal-safe (signal-safety(7)) or, like the stack
//! walk, only read memory once they have been used before.

use std::ffi::c_int;
use std::fmt::Write;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize};
use std::time::Duration;

use crate::log_sink::local_time;

/// Signals that indicate a crash.
const CRASHES: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];
/// How long the report thread may take.
const PATIENCE: Duration = Duration::from_secs(10);
const FRAMES_MAX: usize = 96;
/// An access this close to the end of the stack counts as a stack overflow.
const STACK_MARGIN: usize = 64 * 1024;

/// A thread's call addresses, innermost first.
pub struct Trace {
    len: AtomicUsize,
    frames: [AtomicUsize; FRAMES_MAX],
}

impl Trace {
    const fn new() -> Trace {
        Trace { len: AtomicUsize::new(0), frames: [const { AtomicUsize::new(0) }; FRAMES_MAX] }
    }

    /// Records the calls of the calling thread.
    fn take(&self) {
        let mut len = 0;
        // SAFETY: it is not synchronized with other stack walks, but those also only read memory.
        unsafe {
            backtrace::trace_unsynchronized(|frame| {
                self.frames[len].store(frame.ip() as usize, SeqCst);
                len += 1;
                len < FRAMES_MAX
            });
        }
        self.len.store(len, SeqCst);
    }

    /// The addresses.
    pub fn addresses(&self) -> impl Iterator<Item = usize> + '_ {
        self.frames.iter().take(self.len.load(SeqCst)).map(|frame| frame.load(SeqCst))
    }
}

/// Calls of the crashed thread.
pub static CRASHED: Trace = Trace::new();
/// Calls of the last sampled thread ([`sample`]).
pub static SAMPLED: Trace = Trace::new();
/// The thread that answered, or, negated, the thread that is being asked.
static SAMPLED_THREAD: AtomicI32 = AtomicI32::new(0);
/// The crashed thread.
static CRASHED_THREAD: AtomicI32 = AtomicI32::new(0);
/// The process that sent a fault signal, as recorded by the first handler.
static SENDER: AtomicI32 = AtomicI32::new(0);
/// The rest of the report has been written.
static COMPLETE: AtomicBool = AtomicBool::new(false);
/// Descriptors of the log and of the report thread's event.
static LOG: AtomicI32 = AtomicI32::new(libc::STDOUT_FILENO);
static BELL: AtomicI32 = AtomicI32::new(-1);
/// The program's address range in memory.
static PROGRAM: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Writes text to the log's descriptor without allocating.
pub struct RawLog {
    buffer: [u8; 512],
    len: usize,
}

impl RawLog {
    /// An empty buffer, flushed when it is full or dropped.
    pub fn new() -> RawLog {
        RawLog { buffer: [0; 512], len: 0 }
    }

    /// Starts a line in the format of the log.
    pub fn line(&mut self) {
        let _ = write!(self, "{}:M {} # ", std::process::id(), local_time());
    }

    fn flush(&mut self) {
        let mut rest = &self.buffer[..self.len];
        while !rest.is_empty() {
            // SAFETY: the bytes are in the buffer.
            let written = unsafe { libc::write(LOG.load(SeqCst), rest.as_ptr().cast(), rest.len()) };
            // A log that cannot be written has nowhere to report that.
            let Some(behind) = usize::try_from(written).ok().filter(|count| *count > 0) else { break };
            rest = rest.get(behind..).unwrap_or_default();
        }
        self.len = 0;
    }
}

impl Write for RawLog {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for &byte in text.as_bytes() {
            if self.len == self.buffer.len() {
                self.flush();
            }
            self.buffer[self.len] = byte;
            self.len += 1;
        }
        Ok(())
    }
}

impl Drop for RawLog {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Sets the descriptors of the log and of the report thread's event, and the program's address
/// range.
pub fn prepare(log: c_int, bell: c_int, program: std::ops::Range<usize>) {
    LOG.store(log, SeqCst);
    BELL.store(bell, SeqCst);
    PROGRAM[0].store(program.start, SeqCst);
    PROGRAM[1].store(program.end, SeqCst);
    // The first stack walk may load libraries that later ones need.
    SAMPLED.take();
}

/// The rest of the report has been written: the crashed thread may die.
pub fn complete() {
    COMPLETE.store(true, SeqCst);
}

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void);

fn handle(signal: c_int, handler: Option<Handler>, flags: c_int) {
    // SAFETY: a zeroed action is valid, the pointers are to local variables, and handlers follow
    // this module's rules.
    unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        match handler {
            Some(handler) => {
                action.sa_sigaction = handler as usize;
                action.sa_flags = libc::SA_SIGINFO | flags;
            }
            None => action.sa_sigaction = libc::SIG_DFL,
        }
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(signal, &raw const action, null_mut());
    }
}

/// The signal that asks a thread for its calls.
fn asking() -> c_int {
    libc::SIGRTMIN() + 6
}

/// Installs or removes the crash handlers.
pub fn report_crashes(enabled: bool) {
    handle(asking(), Some(sampled), libc::SA_RESTART);
    for signal in CRASHES {
        let is_fault = signal == libc::SIGSEGV || signal == libc::SIGBUS;
        let (handler, flags): (Handler, c_int) =
            if is_fault { (faulted, libc::SA_ONSTACK) } else { (crashed, 0) };
        handle(signal, enabled.then_some(handler), flags);
    }
}

fn thread() -> c_int {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}

fn sleep(duration: Duration) {
    let time = libc::timespec { tv_sec: duration.as_secs() as _, tv_nsec: duration.subsec_nanos().into() };
    // SAFETY: reads one local variable.
    unsafe { libc::nanosleep(&raw const time, null_mut()) };
}

/// Dies as without handlers. The signal is blocked while its handler runs, so it takes effect
/// when the handler returns.
fn die(signal: c_int) {
    handle(signal, None, 0);
    // SAFETY: no pointers.
    unsafe { libc::raise(signal) };
}

/// Description of a signal.
#[derive(Clone, Copy)]
struct Facts {
    signal: c_int,
    code: c_int,
    cause: Cause,
}

#[derive(Clone, Copy)]
enum Cause {
    /// An access to memory at this address, or an instruction there that could not be executed.
    Address(usize),
    /// Sent by this process.
    Sent(c_int),
}

impl Facts {
    fn of(signal: c_int, info: *const libc::siginfo_t) -> Facts {
        // SAFETY: the system passes a valid pointer to a handler of this kind, with the field
        // that the code implies.
        unsafe {
            let code = info.as_ref().map_or(0, |info| info.si_code);
            let cause = match info.as_ref() {
                Some(info) if code > 0 => Cause::Address(info.si_addr() as usize),
                Some(info) => Cause::Sent(info.si_pid()),
                None => Cause::Sent(0),
            };
            Facts { signal, code, cause }
        }
    }
}

/// The stack pointer of the interrupted thread, if known.
fn stack_end(context: *const libc::c_void) -> Option<usize> {
    // SAFETY: the system passes a valid pointer to a handler of this kind.
    let context = unsafe { context.cast::<libc::ucontext_t>().as_ref() }?;
    #[cfg(target_arch = "x86_64")]
    return usize::try_from(context.uc_mcontext.gregs[libc::REG_RSP as usize]).ok();
    #[cfg(target_arch = "aarch64")]
    return usize::try_from(context.uc_mcontext.sp).ok();
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    None
}

/// The first step of a memory fault, on the thread's alternate stack.
extern "C" fn faulted(signal: c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let facts = Facts::of(signal, info);
    let is_overflow = match facts.cause {
        Cause::Address(address) => stack_end(context).is_some_and(|end| address.abs_diff(end) < STACK_MARGIN),
        Cause::Sent(_) => false,
    };
    if is_overflow {
        if CRASHED_THREAD.compare_exchange(0, thread(), SeqCst, SeqCst).is_ok() {
            head(facts);
            let mut log = RawLog::new();
            log.line();
            let _ = log.write_str("The stack of this thread overflowed\n");
            drop(log);
            tail();
        }
        die(signal);
        return;
    }
    handle(signal, Some(crashed), 0);
    if let Cause::Sent(sender) = facts.cause {
        // No instruction will fault again, so the signal must be raised again.
        SENDER.store(sender, SeqCst);
        // SAFETY: no pointers.
        unsafe { libc::raise(signal) };
    }
}

/// Writes the report.
extern "C" fn crashed(signal: c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    match CRASHED_THREAD.compare_exchange(0, thread(), SeqCst, SeqCst) {
        Ok(_) => {}
        Err(first) if first == thread() => return die(signal),
        Err(_) => {
            // Another thread is about to end the process.
            sleep(2 * PATIENCE);
            return die(signal);
        }
    }
    let mut facts = Facts::of(signal, info);
    let sender = SENDER.load(SeqCst);
    if sender != 0 {
        facts = Facts { code: libc::SI_USER, cause: Cause::Sent(sender), ..facts };
    }
    head(facts);
    CRASHED.take();
    let mut log = RawLog::new();
    let _ = log.write_str("\n------ STACK TRACE ------\n");
    let program = PROGRAM[0].load(SeqCst)..PROGRAM[1].load(SeqCst);
    for address in CRASHED.addresses() {
        let _ = if program.contains(&address) {
            writeln!(log, "braid-server(+{:#x})[{address:#x}]", address - program.start)
        } else {
            writeln!(log, "[{address:#x}]")
        };
    }
    drop(log);
    let once = 1u64;
    // SAFETY: reads eight bytes of a local variable.
    unsafe { libc::write(BELL.load(SeqCst), (&raw const once).cast(), 8) };
    let step = Duration::from_millis(10);
    for _ in 0..PATIENCE.as_millis() / step.as_millis() {
        if COMPLETE.load(SeqCst) {
            break;
        }
        sleep(step);
    }
    tail();
    die(signal);
}

fn head(facts: Facts) {
    let mut log = RawLog::new();
    let _ = log.write_str("\n\n=== BRAID BUG REPORT START: Cut & paste starting from here ===\n");
    log.line();
    let (version, Facts { signal, code, cause }) = (env!("CARGO_PKG_VERSION"), facts);
    let _ = writeln!(log, "Braid {version} crashed by signal: {signal}, si_code: {code}");
    log.line();
    let _ = match cause {
        Cause::Address(address) => writeln!(log, "Accessing address: {address:#x}"),
        Cause::Sent(process) => writeln!(log, "Killed by PID: {process}"),
    };
    let mut name = [0u8; 16];
    // SAFETY: a name has at most 16 bytes, including its terminating zero.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    log.line();
    let _ = writeln!(log, "In thread {} ({})", thread(), std::str::from_utf8(&name[..len]).unwrap_or("?"));
}

fn tail() {
    let mut log = RawLog::new();
    let _ = log.write_str("\n=== BRAID BUG REPORT END. Make sure to include from START to END. ===\n\n");
}

/// The handler of a thread that is asked for its calls.
extern "C" fn sampled(_: c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    if SAMPLED_THREAD.load(SeqCst) == -thread() {
        SAMPLED.take();
        SAMPLED_THREAD.store(thread(), SeqCst);
    }
}

/// Asks another thread of this process for its calls, which are then in [`SAMPLED`]. False if the
/// thread does not answer.
pub fn sample(other: c_int) -> bool {
    SAMPLED_THREAD.store(-other, SeqCst);
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), other, asking()) };
    for _ in 0..20 {
        if SAMPLED_THREAD.load(SeqCst) == other {
            return true;
        }
        sleep(Duration::from_millis(5));
    }
    // A late answer must be ignored.
    SAMPLED_THREAD.store(0, SeqCst);
    false
}

/// The crashed thread; 0 if there is none.
pub fn crashed_thread() -> c_int {
    CRASHED_THREAD.load(SeqCst)
}
