//! Tests of the stream commands.

use crate::testing::{Tester, check, check_resp3};
