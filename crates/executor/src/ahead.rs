// SPDX-License-Identifier: BSD-3-Clause
//! What a command finds out before its keys are locked for it.
//!
//! A command that searches long before it changes something would keep all others from its shard
//! meanwhile. Its [lock-free implementation](crate::engine::row::Body::lock_free) can take what the
//! search needs from the value ([`Request::look_at`]), search without any lock, leave what it has
//! found ([`Request::leave_findings`]) and decline; the body then takes the findings
//! ([`Call::take_findings`]), and must see itself whether they are still good. A search on a
//! background thread ([`Call::look_ahead`]) leaves its findings in the same way.

use std::any::Any;

use braid_keyspace::ValueRef;
use braid_keyspace::object::ObjectType;
use braid_keyspace::txn::KeyRef;

pub use crate::blocking::state::Findings;
use crate::engine::call::Call;
use crate::engine::request::Request;
use crate::locks::{LockSet, lock};

impl Request<'_> {
    /// Looks at a value of type `T` under its shard's lock, shared. The reading counts for nothing.
    /// `None` if there is no such value.
    pub fn look_at<T: ObjectType, R>(
        &mut self,
        key: &KeyRef<'_>,
        look: impl FnOnce(&T) -> Option<R>,
    ) -> Option<R> {
        let (now, keys) = (self.now(), [KeyRef { write: false, ..*key }]);
        let set = LockSet::Keys(&keys);
        let txn = lock(&self.engine.keyspace, &mut self.worker.context, set, self.session.db, now);
        match txn.peek(key.key)?.value() {
            ValueRef::Object(object) => object.get::<T>().and_then(look),
            _ => None,
        }
    }

    /// Leaves findings for the body, which runs next.
    pub fn leave_findings(&mut self, findings: Findings) {
        self.session.execution.findings = Some(findings);
    }
}

impl Call<'_, '_> {
    /// What has been found for this command, if it is of type `T`.
    pub fn take_findings<T: Any>(&mut self) -> Option<Box<T>> {
        let execution = &mut self.session.execution;
        let in_background = execution.precomputed.as_mut().and_then(|again| again.findings.take());
        execution.findings.take().or(in_background)?.downcast().ok()
    }
}
