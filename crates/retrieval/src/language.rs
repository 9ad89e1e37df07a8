//! Which language a file is written in, and which grammar reads it.

/// What a file's name and, for headers, its content say about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Language {
    pub name: &'static str,
    pub(crate) reading: Reading,
}

impl Language {
    /// Whether lines may declare something.
    pub(crate) fn is_code(self) -> bool {
        const OTHERS: &[&str] = &[
            "ruby", "php", "kotlin", "swift", "scala", "lua", "perl", "elixir", "shell", "vue",
            "svelte", "zig", "haskell", "ocaml",
        ];
        matches!(self.reading, Reading::Syntax(_)) || OTHERS.contains(&self.name)
    }
}

/// How a text is taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    Syntax(Grammar),
    Headings,
    Windows,
}

/// The grammars that are built in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Grammar {
    Rust,
    Python,
    JavaScript,
    TypeScript,
    Tsx,
    Go,
    Java,
    CSharp,
    C,
    Cpp,
}

impl Grammar {
    pub(crate) fn language(self) -> tree_sitter::Language {
        match self {
            Self::Rust => tree_sitter_rust::LANGUAGE.into(),
            Self::Python => tree_sitter_python::LANGUAGE.into(),
            Self::JavaScript => tree_sitter_javascript::LANGUAGE.into(),
            Self::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
            Self::Tsx => tree_sitter_typescript::LANGUAGE_TSX.into(),
            Self::Go => tree_sitter_go::LANGUAGE.into(),
            Self::Java => tree_sitter_java::LANGUAGE.into(),
            Self::CSharp => tree_sitter_c_sharp::LANGUAGE.into(),
            Self::C => tree_sitter_c::LANGUAGE.into(),
            Self::Cpp => tree_sitter_cpp::LANGUAGE.into(),
        }
    }
}

/// The language of a file by its path. Only a header's text is looked at.
pub fn detect(path: &str, text: &str) -> Option<Language> {
    let name = path.rsplit('/').next().unwrap_or(path);
    if let Some(language) = by_name(name) {
        return Some(windows(language));
    }
    let (_, extension) = name.rsplit_once('.')?;
    let extension = extension.to_ascii_lowercase();
    if extension == "h" {
        return Some(header(text));
    }
    by_grammar(&extension).or_else(|| by_extension(&extension).map(windows))
}

/// The language of a document by its media type.
pub fn of_media_type(media_type: &str) -> Option<Language> {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let name = match essence.as_str() {
        "text/markdown" | "text/x-markdown" => return by_grammar("md"),
        "application/sql" | "text/x-sql" => "sql",
        "application/yaml" | "text/yaml" | "application/x-yaml" => "yaml",
        "application/json" => "json",
        "text/html" => "html",
        "text/csv" => "csv",
        "application/xml" | "text/xml" => "xml",
        other if other.ends_with("+json") => "json",
        other if other.ends_with("+yaml") => "yaml",
        _ => return None,
    };
    Some(windows(name))
}

fn windows(name: &'static str) -> Language {
    Language { name, reading: Reading::Windows }
}

fn by_name(name: &str) -> Option<&'static str> {
    Some(match name {
        "Dockerfile" | "Containerfile" => "dockerfile",
        "Makefile" | "GNUmakefile" | "makefile" => "make",
        "CMakeLists.txt" => "cmake",
        "go.mod" => "go-mod",
        _ => return None,
    })
}

fn by_grammar(extension: &str) -> Option<Language> {
    let (name, grammar) = match extension {
        "rs" => ("rust", Grammar::Rust),
        "py" | "pyi" | "pyw" => ("python", Grammar::Python),
        "js" | "mjs" | "cjs" | "jsx" => ("javascript", Grammar::JavaScript),
        "ts" | "mts" | "cts" => ("typescript", Grammar::TypeScript),
        "tsx" => ("typescript", Grammar::Tsx),
        "go" => ("go", Grammar::Go),
        "java" => ("java", Grammar::Java),
        "cs" => ("csharp", Grammar::CSharp),
        "c" => ("c", Grammar::C),
        "cc" | "cpp" | "cxx" | "c++" | "hh" | "hpp" | "hxx" | "ipp" => ("cpp", Grammar::Cpp),
        "md" | "markdown" | "mdx" => {
            return Some(Language { name: "markdown", reading: Reading::Headings });
        }
        _ => return None,
    };
    Some(Language { name, reading: Reading::Syntax(grammar) })
}

fn by_extension(extension: &str) -> Option<&'static str> {
    Some(match extension {
        "json" | "jsonc" | "json5" => "json",
        "yaml" | "yml" => "yaml",
        "toml" => "toml",
        "sql" => "sql",
        "html" | "htm" => "html",
        "css" | "scss" | "sass" | "less" => "css",
        "sh" | "bash" | "zsh" => "shell",
        "xml" | "xsd" | "csproj" => "xml",
        "proto" => "protobuf",
        "graphql" | "gql" => "graphql",
        "rb" => "ruby",
        "php" => "php",
        "kt" | "kts" => "kotlin",
        "swift" => "swift",
        "scala" => "scala",
        "lua" => "lua",
        "pl" | "pm" => "perl",
        "r" => "r",
        "ex" | "exs" => "elixir",
        "hs" => "haskell",
        "ml" | "mli" => "ocaml",
        "zig" => "zig",
        "vue" => "vue",
        "svelte" => "svelte",
        "tf" => "terraform",
        "s" | "asm" => "assembly",
        "cmake" => "cmake",
        "rst" => "restructuredtext",
        "adoc" => "asciidoc",
        "csv" => "csv",
        "txt" | "text" => "text",
        _ => return None,
    })
}

/// C and C++ share the ending of their headers.
fn header(text: &str) -> Language {
    const CPP: &[&str] = &["class ", "namespace ", "template", "public:", "private:"];
    let is_cpp =
        text.lines().any(|line| CPP.iter().any(|word| line.trim_start().starts_with(word)));
    let (name, grammar) = if is_cpp { ("cpp", Grammar::Cpp) } else { ("c", Grammar::C) };
    Language { name, reading: Reading::Syntax(grammar) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_what_it_holds() {
        assert_eq!(detect("a/b.h", "int f(void);\n").map(|found| found.name), Some("c"));
        assert_eq!(detect("a/b.h", "namespace a {\n}\n").map(|found| found.name), Some("cpp"));
    }

    #[test]
    fn a_document_is_known_by_its_media_type() {
        let names =
            ["text/markdown; charset=utf-8", "application/vnd.oai.openapi+json", "text/plain"]
                .map(|media_type| of_media_type(media_type).map(|found| found.name));

        assert_eq!(names, [Some("markdown"), Some("json"), None]);
    }

    #[test]
    fn every_grammar_loads() {
        for extension in ["rs", "py", "js", "ts", "tsx", "go", "java", "cs", "c", "cpp"] {
            let Some(Language { reading: Reading::Syntax(grammar), .. }) = by_grammar(extension)
            else {
                panic!("{extension} has no grammar");
            };
            let mut parser = tree_sitter::Parser::new();
            assert!(parser.set_language(&grammar.language()).is_ok(), "{extension}");
        }
    }
}
