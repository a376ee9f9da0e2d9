#!/usr/bin/env node
// Starts the program of this platform, which npm installed beside this package. It shares standard input, output and
// error, gets the signals that this process gets, and its exit code or signal becomes ours.
'use strict';
const { spawn } = require('node:child_process');
const os = require('node:os');

const NAME = 'switchyard-mcp';
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'];

// The packages that can have the program. Of a static one any Linux can run it, so it stands in for a missing one.
function candidates() {
  const platform = `${NAME}-${process.platform}-${process.arch}`;
  if (process.platform !== 'linux') return [platform];
  const glibc = process.report.getReport().header.glibcVersionRuntime;
  return glibc ? [`${platform}-gnu`, `${platform}-musl`] : [`${platform}-musl`];
}

function program() {
  const wanted = candidates();
  for (const name of wanted) {
    try {
      return require.resolve(`${name}/bin/switchyard`);
    } catch {
      // Not installed.
    }
  }
  console.error(
    `switchyard: ${wanted[0]} is not installed. Either there is no package for this platform, or npm left out optional ` +
      `dependencies: run npm install ${NAME} --include=optional`,
  );
  process.exit(1);
}

const child = spawn(program(), process.argv.slice(2), { stdio: 'inherit' });
const forward = (signal) => child.kill(signal);
for (const signal of SIGNALS) process.on(signal, forward);
child.on('error', (error) => {
  console.error(`switchyard: the program could not be started: ${error.message}`);
  process.exit(1);
});
child.on('exit', (code, signal) => {
  if (signal === null) process.exit(code);
  for (const name of SIGNALS) process.removeListener(name, forward);
  process.kill(process.pid, signal);
  // A signal that does not end this process: the exit code is the one that a shell reports.
  setTimeout(() => process.exit(128 + (os.constants.signals[signal] ?? 0)), 100);
});
