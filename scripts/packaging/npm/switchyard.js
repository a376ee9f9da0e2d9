#!/usr/bin/env node
// Starts the program of this platform, which npm installed beside this package. It shares standard input, output and
// error, gets the signals that this process gets, and its exit code or signal becomes ours.
//
// The program comes from the same installation as this file, in the same version: not from `NODE_PATH`, the folder of the
// user or a folder above, where others may write.
'use strict';
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const OWN = require('./package.json');
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'];

function fail(text) {
  console.error(`switchyard: ${text}`);
  process.exit(1);
}

// The packages that can have the program. Of a static one any Linux can run it, so it stands in for a missing one.
function candidates() {
  const platform = `${OWN.name}-${process.platform}-${process.arch}`;
  if (process.platform !== 'linux') return [platform];
  const glibc = process.report.getReport().header.glibcVersionRuntime;
  return glibc ? [`${platform}-gnu`, `${platform}-musl`] : [`${platform}-musl`];
}

// The folders in which a package manager puts the dependencies of this package: its own, and those that contain it.
function folders() {
  const around = [];
  for (let at = path.dirname(__dirname); path.dirname(at) !== at; at = path.dirname(at)) {
    if (path.basename(at) === 'node_modules') around.push(at);
  }
  return [path.join(__dirname, 'node_modules'), ...around];
}

// The folder of a package. Yarn without node_modules finds it itself, among the declared dependencies only.
function folderOf(name) {
  if (process.versions.pnp) {
    try {
      return path.dirname(require.resolve(`${name}/package.json`));
    } catch {
      return undefined;
    }
  }
  return folders().map((folder) => path.join(folder, name)).find((folder) => fs.existsSync(path.join(folder, 'package.json')));
}

function program() {
  const wanted = candidates();
  for (const name of wanted) {
    const folder = folderOf(name);
    if (folder === undefined) continue;
    const found = JSON.parse(fs.readFileSync(path.join(folder, 'package.json'), 'utf8'));
    if (found.name !== name || found.version !== OWN.version) {
      fail(`${folder} has ${found.name} ${found.version}, expected ${name} ${OWN.version}: install ${OWN.name} again`);
    }
    const file = path.join(folder, 'bin', 'switchyard');
    const real = fs.realpathSync(file);
    if (!real.startsWith(fs.realpathSync(folder) + path.sep)) fail(`${file} leads out of its package: install ${OWN.name} again`);
    return real;
  }
  return fail(
    `${wanted[0]} is not installed. Either there is no package for this platform, or npm left out optional ` +
      `dependencies: run npm install ${OWN.name} --include=optional`,
  );
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
