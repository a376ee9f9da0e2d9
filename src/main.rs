//! The program. Everything is in the library; this only hands over the exit code.

use switchyard::upstream::transport::stdio::parent_death;

fn main() -> std::process::ExitCode {
    // First of all, because a child process that becomes a server's program begins here too.
    parent_death::enter();
    switchyard::cli::run()
}
