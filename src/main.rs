//! The program. Everything is in the library; this hands over the exit code and names the allocator.
//!
//! The allocator is the program's and not the library's: who embeds the crate has chosen one.

use upstream::transport::stdio::parent_death;

/// Returns freed memory to the system after a peak.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    // First of all, because a child process that becomes a server's program begins here too.
    parent_death::enter();
    switchyard_mcp::program::run()
}
