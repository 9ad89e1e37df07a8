//! The flags of the scripted agent.

use std::{path::PathBuf, str::FromStr, time::Duration};

/// How the process behaves, whatever it is asked.
#[derive(Debug, Clone)]
pub struct Options {
    pub(super) tag: Option<String>,
    pub(super) journal: Option<PathBuf>,
    pub(super) initialize_delay: Duration,
    pub(super) silent: Vec<Point>,
    pub(super) protocol_version: u64,
    pub(super) load: bool,
    pub(super) resume: bool,
    pub(super) list: bool,
    pub(super) close: bool,
    pub(super) auth_required: bool,
    pub(super) replay: Replay,
    pub(super) lost_code: i64,
    pub(super) session_id: Option<String>,
    pub(super) forget: bool,
    pub(super) ids: Ids,
    pub(super) ends: Vec<(Point, End)>,
    pub(super) ignore_sigterm: bool,
    pub(super) ignore_cancel: bool,
    pub(super) ignore_eof: bool,
    pub(super) detach: usize,
    pub(super) detach_holding: usize,
    pub(super) garbage: Vec<Garbage>,
    pub(super) chatter: bool,
    pub(super) long_line_mb: Option<usize>,
    pub(super) stderr: Option<String>,
    pub(super) late: usize,
    pub(super) flood: Option<(usize, u64)>,
    pub(super) on_reject: Reaction,
}

impl Options {
    /// The reason is for people.
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        while let Some(name) = arguments.next() {
            if !options.set_switch(&name) {
                let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
                options.set_value(&name, &value, &mut arguments)?;
            }
        }
        Ok(options)
    }

    fn set_switch(&mut self, name: &str) -> bool {
        let switch = match name {
            "--load" => &mut self.load,
            "--resume" => &mut self.resume,
            "--list" => &mut self.list,
            "--close" => &mut self.close,
            "--auth-required" => &mut self.auth_required,
            "--forget" => &mut self.forget,
            "--ignore-sigterm" => &mut self.ignore_sigterm,
            "--ignore-cancel" => &mut self.ignore_cancel,
            "--ignore-eof" => &mut self.ignore_eof,
            "--chatter" => &mut self.chatter,
            _ => return false,
        };
        *switch = true;
        true
    }

    fn set_value(
        &mut self,
        name: &str,
        value: &str,
        more: &mut impl Iterator<Item = String>,
    ) -> Result<(), String> {
        match name {
            "--tag" => self.tag = Some(value.to_owned()),
            "--journal" => self.journal = Some(value.into()),
            "--initialize-delay" => self.initialize_delay = Duration::from_millis(parse(value)?),
            "--silent" => self.silent.push(value.parse()?),
            "--protocol-version" => self.protocol_version = parse(value)?,
            "--replay" => self.replay = value.parse()?,
            "--lost-code" => self.lost_code = parse(value)?,
            "--session-id" => self.session_id = Some(value.to_owned()),
            "--ids" => self.ids = value.parse()?,
            "--exit-at" => self.ends.push(end(value, End::Exit, 0)?),
            "--crash-at" => self.ends.push(end(value, End::Signal, 9)?),
            "--detach" => self.detach = parse(value)?,
            "--detach-holding" => self.detach_holding = parse(value)?,
            "--garbage" => self.garbage.push(value.parse()?),
            "--long-line" => self.long_line_mb = Some(parse(value)?),
            "--stderr" => self.stderr = Some(value.to_owned()),
            "--late" => self.late = parse(value)?,
            "--flood" => {
                let rate = more.next().ok_or("--flood needs a number and a rate")?;
                self.flood = Some((parse(value)?, parse(&rate)?));
            }
            "--on-reject" => self.on_reject = value.parse()?,
            _ => return Err(format!("unknown flag {name}")),
        }
        Ok(())
    }

    pub(super) fn is_silent_at(&self, point: Point) -> bool {
        self.silent.contains(&point)
    }

    pub(super) fn does(&self, garbage: Garbage) -> bool {
        self.garbage.contains(&garbage)
    }

    /// How the process ends there, if it does.
    pub(super) fn end_at(&self, point: Point) -> Option<End> {
        self.ends.iter().find(|(at, _)| *at == point).map(|(_, end)| *end)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tag: None,
            journal: None,
            initialize_delay: Duration::ZERO,
            silent: Vec::new(),
            protocol_version: 1,
            load: false,
            resume: false,
            list: false,
            close: false,
            auth_required: false,
            replay: Replay::Before,
            lost_code: -32002,
            session_id: None,
            forget: false,
            ids: Ids::Numbers,
            ends: Vec::new(),
            ignore_sigterm: false,
            ignore_cancel: false,
            ignore_eof: false,
            detach: 0,
            detach_holding: 0,
            garbage: Vec::new(),
            chatter: false,
            long_line_mb: None,
            stderr: None,
            late: 0,
            flood: None,
            on_reject: Reaction::GoOn,
        }
    }
}

/// How a process ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Exit(i32),
    Signal(i32),
}

/// Words that stand for the variants of an enum.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum $name {
            $($variant,)+
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(word: &str) -> Result<Self, String> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(format!("{word:?} is none of {:?}", [$($word),+])),
                }
            }
        }
    };
}

words! {
    /// A moment of the protocol.
    Point {
        Start = "start",
        Initialize = "initialize",
        New = "new",
        Load = "load",
        Resume = "resume",
        Prompt = "prompt",
        Update = "update",
        Answer = "answer",
        Cancel = "cancel",
    }
}

words! {
    /// Where a loaded session repeats its history.
    Replay {
        Before = "before",
        After = "after",
        Never = "none",
    }
}

words! {
    /// How the agent's own requests are named.
    Ids {
        Numbers = "numbers",
        Uuids = "uuids",
    }
}

words! {
    /// What follows a rejected permission.
    Reaction {
        GoOn = "go-on",
        Silent = "silent",
        Cancelled = "cancelled",
    }
}

words! {
    /// A way to break the protocol.
    Garbage {
        Text = "text",
        Binary = "binary",
        Json = "json",
        UnknownId = "unknown-id",
        UnknownMethod = "unknown-method",
        UnknownRequest = "unknown-request",
        UnknownUpdate = "unknown-update",
        BadUpdate = "bad-update",
        WrongSession = "wrong-session",
        Twice = "twice",
    }
}

pub(super) fn parse<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not such a number"))
}

/// `POINT` or `POINT:NUMBER`.
fn end(text: &str, make: fn(i32) -> End, usual: i32) -> Result<(Point, End), String> {
    let (point, number) = match text.split_once(':') {
        Some((point, number)) => (point, parse(number)?),
        None => (text, usual),
    };
    Ok((point.parse()?, make(number)))
}
