//! Files that stock servers have made.
