// SPDX-License-Identifier: BSD-3-Clause
// Shared by the Node programs: counted checks, and waiting.
import assert from "node:assert/strict";

let checks = 0;

// Counts a check, and throws if the value is not the expected one.
export function check(got, expected, what) {
  assert.deepEqual(got, expected, what);
  checks += 1;
}

// Waits until a condition holds; the test fails if it does not within 30 seconds.
export async function until(what, condition) {
  const end = Date.now() + 30_000;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`timed out waiting for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

// Prints the last line, which main.rs reads, and exits regardless of open connections.
export function finish() {
  console.log(`${checks} checks passed`);
  process.exit(0);
}
