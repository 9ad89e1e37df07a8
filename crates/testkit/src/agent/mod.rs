//! A coding agent that speaks the Agent Client Protocol, version 1, over its standard input and output, and behaves as it is told:
//! well, badly, or like one of the agents on the market. It is plain JSON all the way, so that it can break every rule.
//!
//! # The process, by flags
//!
//! | flag | behaviour |
//! |---|---|
//! | `--tag TEXT` | none; the text is on the command line of the agent and of all that it starts, so that a test finds them |
//! | `--journal PATH` | appends what happens to it, one JSON per line: `{"started":pid}`, `{"received":…}`, `{"signal":"SIGTERM"}`, `{"detached":[pid]}`, `{"flooded":n}`, `{"eof":true}` |
//! | `--initialize-delay MS` | answers `initialize` that much later |
//! | `--silent POINT` | never answers that request: `initialize`, `new`, `load`, `resume` or `prompt` |
//! | `--protocol-version N` | answers `initialize` with it |
//! | `--load` `--resume` `--list` `--close` | has that ability of sessions |
//! | `--auth-required` | refuses `new`, `load` and `resume` with −32000 |
//! | `--replay before\|after\|none` | where `load` repeats the history: before its response; after it, with a hidden context as the first message of the user, as Gemini does; not at all. `before` unless told |
//! | `--lost-code CODE` | the code of the error about a session that it does not know; −32002 unless told |
//! | `--session-id TEXT` | names every new session so |
//! | `--forget` | keeps no session, so that a new process has lost them all |
//! | `--ids numbers\|uuids` | its own requests are numbered 0, 1, 2 …, or named by UUIDs |
//! | `--exit-at POINT[:CODE]` | exits there: `start` (nothing answered), `initialize` (after its answer), `new`, `load` (in the request), `prompt` (before the first update), `update` (after the first one), `answer` (after that of a prompt), `cancel` |
//! | `--crash-at POINT[:SIGNAL]` | the same by a signal, 9 unless told |
//! | `--ignore-sigterm` `--ignore-cancel` `--ignore-eof` | goes on |
//! | `--detach N` | starts N processes that leave its session and its parent (setsid and a second fork) and live for an hour; pids go to the journal and to stderr |
//! | `--detach-holding N` | the same, and they keep its standard output and error open |
//! | `--garbage KIND` | at the start and at the begin of each prompt: `text`, `binary` (not UTF-8), `json` (a number), `unknown-id` (an answer to nothing), `unknown-method`, `unknown-request`, `unknown-update`, `bad-update` (a known one without its members), `wrong-session`; `twice` answers everything twice. May be repeated |
//! | `--chatter` | notifications that need no attention, as agents send them: `available_commands_update`, `usage_update`, `session_info_update`, `_scripted/hello` |
//! | `--long-line MB` | one line of that length before `initialize` is answered |
//! | `--stderr TEXT` | writes it to its standard error at the start |
//! | `--late N` | sends N updates after each answer to a prompt |
//! | `--flood N RATE` | after `new`, outside of any prompt: N updates, so many a second |
//! | `--on-reject go-on\|silent\|cancelled` | after a rejected permission: says so and goes on; ends the turn and never mentions the tool again, as Gemini; ends it with `cancelled`, as codex |
//!
//! # A turn, by the lines of its prompt
//!
//! | line | behaviour |
//! |---|---|
//! | `say TEXT` `think TEXT` | one chunk; `\n` in the text is a new line |
//! | `say-slowly CHUNKS MS` | that many chunks, `1 `, `2 ` …, with pauses |
//! | `plan A\|B\|C` | a plan; the first step is under way |
//! | `tool ID NAME KIND {args} -> {result}` | a call that succeeds |
//! | `fail-tool ID NAME KIND {args} -> {result}` | a call that fails |
//! | `open-tool ID NAME KIND {args}` | a call that never ends |
//! | `diff PATH TEXT` | writes the file, and tells it as a call with a difference |
//! | `ask ID KIND PATH [REACTION]` | asks for permission before any word of the call; then writes the file (`edit`) or reads it (another kind), or reacts to the refusal as `--on-reject` says |
//! | `ask-many N` | asks for so many permissions at once and says how many answers chose an option |
//! | `deaf-until PATH` | reads no further line of the client before the file is there |
//! | `write PATH TEXT` `append PATH TEXT` `read PATH` | really, and says what happened |
//! | `usage IN OUT` | tokens, as a `usage_update` and in the answer to the prompt |
//! | `stall` | does nothing until it is cancelled |
//! | `wait-for PATH` | goes on when the file is there |
//! | `flood N RATE` | N chunks of text, `1 `, `2 ` …, so many a second; 0 is as fast as it can |
//! | `stamp N MS` | one call with N updates, so long apart; the arguments of each are `{"nanos":…}`, the [`wall_nanos`] at which it was made |
//! | `fork-detached [N]` | as `--detach`, and says the pids |
//! | `garbage KIND [N]` `long-line MB` | as the flags; the line is a chunk of text of that length |
//! | `stderr TEXT` | writes it to its standard error |
//! | `late N` | sends N updates after the answer |
//! | `exit CODE` `crash SIGNAL` | ends the process |
//! | `env` `pwd` | says its environment as JSON, its directory |
//! | `history` | says what was said before in this session |
//! | `stop REASON` | ends the turn with that stop reason |
//! | `fail CODE TEXT` | ends it with an error |
//! | anything else | says `I heard: …` |

mod clock;
mod detach;
mod journal;
mod memory;
mod misbehave;
mod options;
mod output;
mod script;
mod serve;
mod turn;

pub use clock::wall_nanos;
pub use detach::linger;
pub use options::Options;
pub use serve::serve;
