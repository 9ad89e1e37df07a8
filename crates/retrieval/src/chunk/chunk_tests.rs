use proptest::prelude::*;

use super::*;
use crate::language::detect;

fn split(path: &str, text: &str) -> Vec<Passage> {
    Chunker::default().split(text, detect(path, text))
}

fn symbols(path: &str, text: &str) -> Vec<String> {
    split(path, text).into_iter().flat_map(|passage| passage.symbols).collect()
}

#[test]
fn a_definition_comes_with_its_comment_and_its_attributes() {
    let body = "    let answer = compute_the_answer(of, everything);\n".repeat(30);
    let text = format!(
        "use a::b;\n\n/// Says it.\n#[inline]\nfn said() {{\n{body}}}\n\nfn other() {{\n{body}}}\n"
    );

    let passages = split("a.rs", &text);

    let found: Vec<_> =
        passages.iter().map(|p| (p.start_line, p.end_line, p.symbols.join(","))).collect();
    assert_eq!(
        found,
        [(1, 1, String::new()), (3, 36, "said".to_owned()), (38, 69, "other".to_owned())]
    );
}

#[test]
fn every_language_names_what_it_defines() {
    let cases = [
        (
            "a.rs",
            "struct A;\nimpl<T> B<T> { fn c(&self) {} }\nmod d { const E: u8 = 1; }\nmacro_rules! f { () => {} }\n",
            "A B B::c d d::E f",
        ),
        (
            "a.py",
            "X = 1\n\nclass A:\n    @property\n    def b(self):\n        pass\n\n@cached\ndef c():\n    pass\n",
            "X A A::b c",
        ),
        (
            "a.js",
            "export class A { b() {} }\nexport default function c() {}\nconst d = () => 1, e = 2;\nexports.f = function () {};\n",
            "A A::b c d e exports.f",
        ),
        (
            "a.ts",
            "export interface A { b(): void }\nexport type B = string;\nabstract class C { private d = 1; abstract e(): void; }\nenum F { G }\n",
            "A B C C::d C::e F",
        ),
        (
            "a.go",
            "package a\n\nfunc (s *Server) Serve(x int) error {\n\treturn nil\n}\n\ntype (\n\tA struct{}\n\tB int\n)\n\nconst C = 1\n",
            "Server::Serve A B C",
        ),
        (
            "a.java",
            "class A {\n  int b, c;\n  void d() {}\n  enum E { F }\n}\n",
            "A A::b A::c A::d A::E",
        ),
        (
            "a.cs",
            "namespace N {\n class A {\n  public int B { get; set; }\n  void C() {}\n  int d;\n }\n}\n",
            "N N::A N::A::B N::A::C N::A::d",
        ),
        (
            "a.c",
            "#define MAX 3\nstatic int *add(int a, int b) { return 0; }\ntypedef struct node { int v; } node_t;\nint (*handler)(void);\n",
            "MAX add node node_t handler",
        ),
        (
            "a.cpp",
            "namespace n {\nclass A {\n public:\n  void b();\n};\ntemplate <class T> T c(T t) { return t; }\n}\nvoid n::A::b() {}\n",
            "n n::A n::A::b n::c n::A::b",
        ),
    ];

    for (path, text, expected) in cases {
        let mut found = symbols(path, text);
        let mut wanted: Vec<String> = expected.split(' ').map(str::to_owned).collect();
        found.sort();
        found.dedup();
        wanted.sort();
        wanted.dedup();
        assert_eq!(found, wanted, "{path}");
    }
}

#[test]
fn a_large_container_is_opened_and_its_parts_bear_its_name() {
    let method = |name: &str| {
        format!(
            "    /// Does it.\n    pub fn {name}(&self) {{\n{}    }}\n\n",
            "        work();\n".repeat(60)
        )
    };
    let text = format!("/// A pool.\nimpl Pool {{\n{}{}}}\n", method("acquire"), method("release"));

    let passages = split("a.rs", &text);

    let found: Vec<_> = passages.iter().map(|p| (p.symbols.join(","), p.start_line)).collect();
    assert_eq!(
        found,
        [("Pool".into(), 1), ("Pool::acquire".into(), 3), ("Pool::release".into(), 67)]
            as [(String, u32); 3]
    );
    assert!(passages.last().unwrap().text.ends_with('}'));
}

#[test]
fn text_that_is_not_in_its_language_is_split_in_windows() {
    let text = "%%% this is ((( no [[[ rust\n}}} at all ;;; \n".repeat(100);

    let passages = split("a.rs", &text);

    assert!(passages.len() > 1);
    assert!(passages.iter().all(|passage| passage.symbols.is_empty()));
}

#[test]
fn names_are_guessed_where_no_grammar_helps() {
    let ruby = "class Pool\n  def acquire(timeout)\n  end\nend\n";
    let macros = "cfg_rt! {\n    /// Runs it.\n    pub fn spawn_blocking<F>(f: F) -> u8 {\n        0\n    }\n}\n";

    assert_eq!(symbols("pool.rb", ruby), ["Pool", "acquire"]);
    assert_eq!(symbols("a.rs", macros), ["spawn_blocking"]);
    assert_eq!(symbols("a.txt", "class of its own\n"), [] as [&str; 0]);
}

#[test]
fn sections_bear_the_headings_above_them() {
    let filler = "Words that fill the section up, and more of them.\n".repeat(20);
    let text = format!(
        "Lead.\n\n# Guide\n{filler}\n## Set up\n{filler}\n```sh\n# no heading\n```\n## Run #\nnow\n"
    );

    assert_eq!(symbols("README.md", &text), ["Guide", "Guide > Set up", "Guide > Run"]);
}

#[test]
fn a_line_that_is_too_long_is_cut_at_characters() {
    let text = format!("first\n{}\nlast", "é".repeat(3_000));

    let passages = split("a.txt", &text);

    let lines: Vec<_> = passages.iter().map(|p| (p.start_line, p.end_line)).collect();
    assert_eq!(lines, [(1, 1), (2, 2), (2, 2), (2, 2), (2, 2), (3, 3)]);
}

#[test]
fn an_empty_text_has_no_passages() {
    for text in ["", "\n", " \n\t\r\n\n"] {
        assert_eq!(split("a.rs", text), [], "{text:?}");
    }
}

#[test]
fn nesting_without_end_does_no_harm() {
    let text = format!("{}fn f() {{}}{}", "mod a {".repeat(20_000), "}".repeat(20_000));

    assert!(!split("a.rs", &text).is_empty());
}

/// Passages are what the file says at the lines they name, in order, and leave nothing out.
fn check(path: &str, text: &str) {
    let passages = split(path, text);
    let lines: Vec<&str> = text.split('\n').collect();
    let mut covered = vec![false; lines.len()];
    let mut before = 0;
    for passage in &passages {
        assert!(passage.start_line > before && passage.start_line <= passage.end_line);
        let (first, last) = (passage.start_line as usize - 1, passage.end_line as usize - 1);
        let expected = lines[first..=last].join("\n");
        assert_eq!(passage.text, expected.strip_suffix('\r').unwrap_or(&expected));
        assert_eq!(passage.sha256, Sha256Hash::of(passage.text.as_bytes()));
        covered[first..=last].fill(true);
        before = passage.end_line;
    }
    for (row, line) in lines.iter().enumerate() {
        assert!(
            covered[row] || line.trim().is_empty(),
            "line {} of {path} is in no passage",
            row + 1
        );
    }
}

fn source() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "fn a() {}\n",
        "/// doc\n",
        "impl A {\n",
        "}\n",
        "\n",
        "class B:\n    def c(self): pass\n",
        "# Title\n",
        "#ifdef X\n",
        "#endif\n",
        "int f(void) { return 1; }\r\n",
        "export const x = {\n",
        "};\n",
        "// note\n",
        "namespace n {",
        "```\n",
        "é ünï\n",
        "@decorator\n",
        "func (s *S) T() {\n",
        "\t\t\n",
        ";;",
        "\"",
        "/*",
        "*/\n",
        "    let long_enough_line_to_matter = compute(with, several, arguments) + another(one);\n",
    ]);
    prop::collection::vec(piece, 0..220).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn passages_are_the_lines_they_name_and_cover_the_text(text in source()) {
        for path in ["a.rs", "a.py", "a.js", "a.ts", "a.go", "a.java", "a.cs", "a.c", "a.cpp", "a.md", "a.txt"] {
            check(path, &text);
        }
    }
}
