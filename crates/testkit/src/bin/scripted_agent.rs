//! An agent of the Agent Client Protocol that does what it is told; see [`skein_testkit::agent`].
//!
//! ```text
//! scripted-agent [FLAG…]
//! ```

use std::{
    env,
    io::{self, Write},
    path::PathBuf,
};

use skein_testkit::agent::{Options, linger, serve};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let code = linger(&arguments).unwrap_or_else(|| run(arguments));
    // Returning would wait for prompts that never end.
    std::process::exit(code)
}

fn run(arguments: Vec<String>) -> i32 {
    let complain = |reason: &dyn std::fmt::Display| {
        // Nobody is left to tell if even this fails.
        let _written = writeln!(io::stderr(), "error: {reason}");
        2
    };
    let options = match Options::parse(arguments.into_iter()) {
        Ok(options) => options,
        Err(reason) => return complain(&reason),
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    match runtime {
        Ok(runtime) => {
            runtime.block_on(serve(options, home()));
            0
        }
        Err(reason) => complain(&reason),
    }
}

#[expect(clippy::disallowed_methods, reason = "agents keep their sessions in their home")]
fn home() -> PathBuf {
    env::var_os("HOME").map_or_else(env::temp_dir, PathBuf::from)
}
