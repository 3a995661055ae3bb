// SPDX-License-Identifier: BSD-3-Clause
// What the programs for Node share: counting checks, and waiting.
import assert from "node:assert/strict";

let checks = 0;

// Throws if something is not as expected, and counts it.
export function check(got, expected, what) {
  assert.deepEqual(got, expected, what);
  checks += 1;
}

// Waits for something that others bring about; the test fails when it does not come.
export async function until(what, condition) {
  const end = Date.now() + 30_000;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

// The last line, which main.rs reads, and the end of the program whatever is still open.
export function finish() {
  console.log(`${checks} checks passed`);
  process.exit(0);
}
