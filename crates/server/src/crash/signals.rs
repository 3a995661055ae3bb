// SPDX-License-Identifier: BSD-3-Clause
//! The part of a crash report that is written inside of a signal handler: no lock, no allocation,
//! no state of the process except the buffers prepared here.
//!
//! The crashing thread writes the signal and the addresses of its calls to the log's descriptor,
//! wakes the report thread (the parent module), gives it some seconds, and then dies of the signal
//! as it would have done anyway.
//!
//! Memory faults take two steps, because a thread's alternate stack is too small for more than one
//! check: has the thread's own stack run out? If not, the second handler is installed, and the
//! faulting instruction runs once more, on the thread's stack this time.
//!
//! Invariants behind the `unsafe` here: handlers touch atomics, the descriptor and their own stack
//! alone; the functions they call are allowed in handlers (signal-safety(7)), or, like the stack
//! walk, only read memory once they have been used before.

use std::ffi::c_int;
use std::fmt::Write;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize};
use std::time::Duration;

use crate::log_sink::local_time;

/// Signals that tell of a crash.
const CRASHES: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];
/// How long the thread that knows more has.
const PATIENCE: Duration = Duration::from_secs(10);
const FRAMES_MAX: usize = 96;
/// An access so near to the end of the stack is one beyond it.
const STACK_MARGIN: usize = 64 * 1024;

/// Addresses of the calls that a thread is in, innermost first.
pub struct Trace {
    len: AtomicUsize,
    frames: [AtomicUsize; FRAMES_MAX],
}

impl Trace {
    const fn new() -> Trace {
        Trace { len: AtomicUsize::new(0), frames: [const { AtomicUsize::new(0) }; FRAMES_MAX] }
    }

    /// Takes those of the thread that calls this.
    fn take(&self) {
        let mut len = 0;
        // SAFETY: it is not synchronized with other walks; those only read memory, too.
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

/// Calls of the thread that crashed.
pub static CRASHED: Trace = Trace::new();
/// Calls of the thread that was asked last ([`sample`]).
pub static SAMPLED: Trace = Trace::new();
/// The thread that answered.
static SAMPLED_THREAD: AtomicI32 = AtomicI32::new(0);
/// The thread that crashed.
static CRASHED_THREAD: AtomicI32 = AtomicI32::new(0);
/// The process that sent a signal at which a first look was taken.
static SENDER: AtomicI32 = AtomicI32::new(0);
/// The rest of the report has been written.
static COMPLETE: AtomicBool = AtomicBool::new(false);
/// Descriptors of the log and of what the thread that knows more waits for.
static LOG: AtomicI32 = AtomicI32::new(libc::STDOUT_FILENO);
static BELL: AtomicI32 = AtomicI32::new(-1);
/// Where the program lies in memory.
static PROGRAM: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Text to the log's descriptor, without an allocation.
pub struct RawLog {
    buffer: [u8; 512],
    len: usize,
}

impl RawLog {
    /// An empty buffer, written out when it is full or dropped.
    pub fn new() -> RawLog {
        RawLog { buffer: [0; 512], len: 0 }
    }

    /// Begins a line as the log's lines begin.
    pub fn line(&mut self) {
        let _ = write!(self, "{}:M {} # ", std::process::id(), local_time());
    }

    fn flush(&mut self) {
        let mut rest = &self.buffer[..self.len];
        while !rest.is_empty() {
            // SAFETY: the bytes are there.
            let written = unsafe { libc::write(LOG.load(SeqCst), rest.as_ptr().cast(), rest.len()) };
            // A log that cannot be written has nowhere to complain.
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

/// Says where the log is, whom to wake, and where the program lies in memory.
pub fn prepare(log: c_int, bell: c_int, program: std::ops::Range<usize>) {
    LOG.store(log, SeqCst);
    BELL.store(bell, SeqCst);
    PROGRAM[0].store(program.start, SeqCst);
    PROGRAM[1].store(program.end, SeqCst);
    // The first walk over a stack may load what later ones need.
    SAMPLED.take();
}

/// The rest of the report has been written: the thread that crashed may die.
pub fn complete() {
    COMPLETE.store(true, SeqCst);
}

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void);

fn handle(signal: c_int, handler: Option<Handler>, flags: c_int) {
    // SAFETY: a zeroed action is a valid one, the pointers are those of a local variable, and
    // handlers keep to this module's rules.
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

/// The signal by which a thread is asked for its calls.
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

/// What the system does without handlers. The signal is held while its handler runs, so it strikes
/// when that returns.
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
    /// Memory at this address was used, or this instruction could not be executed.
    Address(usize),
    /// A process sent it.
    Sent(c_int),
}

impl Facts {
    fn of(signal: c_int, info: *const libc::siginfo_t) -> Facts {
        // SAFETY: the system gives a handler of this kind a valid pointer, and the field that the
        // code says is there.
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

/// Where the stack of a thread that was interrupted ends, where this is known.
fn stack_end(context: *const libc::c_void) -> Option<usize> {
    // SAFETY: the system gives a handler of this kind a valid pointer.
    let context = unsafe { context.cast::<libc::ucontext_t>().as_ref() }?;
    #[cfg(target_arch = "x86_64")]
    return usize::try_from(context.uc_mcontext.gregs[libc::REG_RSP as usize]).ok();
    #[cfg(target_arch = "aarch64")]
    return usize::try_from(context.uc_mcontext.sp).ok();
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    None
}

/// The first look at a memory fault, on the thread's spare stack.
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
            let _ = log.write_str("The stack of this thread has run out\n");
            drop(log);
            tail();
        }
        die(signal);
        return;
    }
    handle(signal, Some(crashed), 0);
    if let Cause::Sent(sender) = facts.cause {
        // Nothing will fail once more.
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
    // SAFETY: eight bytes of a local variable.
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
    // SAFETY: a name has at most 16 bytes, the zero at its end included.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    log.line();
    let _ = writeln!(log, "In thread {} ({})", thread(), std::str::from_utf8(&name[..len]).unwrap_or("?"));
}

fn tail() {
    let mut log = RawLog::new();
    let _ = log.write_str("\n=== BRAID BUG REPORT END. Make sure to include from START to END. ===\n\n");
}

/// A thread is asked for its calls.
extern "C" fn sampled(_: c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    if SAMPLED_THREAD.load(SeqCst) == -thread() {
        SAMPLED.take();
        SAMPLED_THREAD.store(thread(), SeqCst);
    }
}

/// Asks another thread of this process for its calls, which then stand in [`SAMPLED`]. False if it
/// does not answer.
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
    // It may still answer: not to this question any more.
    SAMPLED_THREAD.store(0, SeqCst);
    false
}

/// The thread that crashed.
pub fn crashed_thread() -> c_int {
    CRASHED_THREAD.load(SeqCst)
}
