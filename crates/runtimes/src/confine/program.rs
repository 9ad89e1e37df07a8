//! Which file a command starts, and what else must be readable for it to run.

use std::{
    ffi::OsStr,
    fs::File,
    io::Read,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Component, Path, PathBuf},
};

/// A script whose interpreter is a script, and so on.
const MOST_INTERPRETERS: usize = 4;
/// The kernel reads no more of a `#!` line either.
const INTERPRETER_LINE_BYTES: u64 = 256;

/// A program to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// The path to start it by. Some programs look at it, so it may lead over links.
    pub(super) path: PathBuf,
    /// Real paths of what belongs to it: the program, its interpreters, and where they keep their parts.
    pub(super) parts: Vec<PathBuf>,
    /// Every path that is looked up on the way, as it is written.
    pub(super) named: Vec<PathBuf>,
}

impl Program {
    /// Finds a program by name on the search path, or by path, relative ones in the workspace.
    pub(super) fn find(name: &str, search_path: Option<&OsStr>, workspace: &Path) -> Option<Self> {
        let path = match name.contains('/') {
            true => Some(workspace.join(name)).filter(|path| is_executable(path)),
            false => search(name, search_path),
        }?;
        let mut program = Self { path: path.clone(), parts: Vec::new(), named: Vec::new() };
        let mut next = Some(path);
        for _ in 0..MOST_INTERPRETERS {
            let Some(path) = next else { break };
            program.add(&path);
            next = interpreter(&path, search_path);
            program.named.push(path);
        }
        program.parts.sort();
        program.parts.dedup();
        Some(program)
    }

    fn add(&mut self, path: &Path) {
        // `#!/usr/bin/env name`: what is named counts, but `env` has to be there too.
        let Ok(real) = path.canonicalize() else { return };
        for place in [path, &real] {
            self.parts.extend(installation(place));
        }
        self.parts.push(real);
    }
}

/// The first executable of this name on a search path.
pub(super) fn search(name: &str, search_path: Option<&OsStr>) -> Option<PathBuf> {
    let places = std::env::split_paths(search_path?).filter(|place| place.is_absolute());
    places.map(|place| place.join(name)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// What a script is read by: the word after `#!`, or after `env`.
fn interpreter(path: &Path, search_path: Option<&OsStr>) -> Option<PathBuf> {
    let mut line = Vec::new();
    File::open(path).ok()?.take(INTERPRETER_LINE_BYTES).read_to_end(&mut line).ok()?;
    let line = line.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words =
        line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(OsStr::from_bytes);
    let interpreter = PathBuf::from(words.next()?);
    if interpreter.file_name() != Some(OsStr::new("env")) {
        return Some(interpreter);
    }
    let is_name =
        |word: &&OsStr| !word.as_bytes().starts_with(b"-") && !word.as_bytes().contains(&b'=');
    search(words.find(is_name)?.to_str()?, search_path)
}

/// Where a program keeps its parts. Never a directory that may be somebody's home or hold several programs' data.
fn installation(path: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    // Packages of one installation refer to each other, so all of them: the outermost directory.
    let modules =
        path.components().position(|part| part == Component::Normal("node_modules".as_ref()));
    if let Some(depth) = modules {
        places.push(path.components().take(depth + 1).collect());
    }
    let directory = path.parent();
    if let Some(directory) = directory.filter(|directory| directory.ends_with("bin"))
        && let Some(prefix) = directory.parent()
    {
        let parts = ["lib", "lib64", "libexec", "pyvenv.cfg"];
        places.extend(parts.map(|part| prefix.join(part)).into_iter().filter(|part| part.exists()));
    }
    places
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn executable(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_package_of_npm_brings_its_modules_and_its_interpreter() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let script = base.join("node/lib/node_modules/@google/cli/dist/index.js");
        executable(&script, "#!/usr/bin/env -S node --no-warnings\n");
        executable(&base.join("node/bin/node"), "\x7fELF");
        symlink("../lib/node_modules/@google/cli/dist/index.js", base.join("node/bin/gemini"))
            .unwrap();
        fs::create_dir_all(base.join("node/share/private")).unwrap();
        let path = base.join("node/bin");

        let found = Program::find("gemini", Some(path.as_os_str()), Path::new("/work"));

        assert_eq!(
            found,
            Some(Program {
                path: base.join("node/bin/gemini"),
                parts: vec![
                    base.join("node/bin/node"),
                    base.join("node/lib"),
                    base.join("node/lib/node_modules"),
                    script,
                ],
                named: vec![base.join("node/bin/gemini"), base.join("node/bin/node")],
            })
        );
    }

    #[test]
    fn a_program_alone_brings_itself_and_nothing_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        executable(&base.join("agent"), "\x7fELF");
        fs::write(base.join("secret"), "").unwrap();

        let found = Program::find("./agent", None, &base).unwrap();

        assert_eq!(found.parts, [base.join("agent")]);
        assert_eq!(Program::find("./secret", None, &base), None);
        assert_eq!(Program::find("agent", Some(OsStr::new("/nowhere")), &base), None);
    }
}
