//! The program. Everything is in the library; this only hands over the exit code.

fn main() -> std::process::ExitCode {
    switchyard::cli::run()
}
