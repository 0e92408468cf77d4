//! Tokens of the text form.

use super::comments::Comments;
use super::error::ParseError;

/// The kind of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A bare word.
    Word,
    /// `%name`
    Value,
    /// `@name` or `@"any name"`
    Symbol,
    /// A number: sign, digits, letters and dots; what it means depends on the type wanted.
    Number,
    /// Quoted text.
    Text,
    /// One of the marks `( ) { } [ ] , : =`.
    Mark,
    /// `->`
    Arrow,
    /// The end of the text.
    End,
}

/// A token and where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    pub(crate) at: usize,
}

/// Whether a name can stand behind `%` or `@`, or as a word, without quotes.
pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(is_name_start) && text.chars().all(is_name_part)
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn is_name_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}

/// Cuts a text into tokens, one at a time.
pub(crate) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    pub(crate) comments: Comments<'a>,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str) -> Lexer<'a> {
        Lexer { text, at: 0, comments: Comments::default() }
    }

    /// An error about a token.
    pub(crate) fn error(&self, token: Token<'a>, message: impl Into<String>) -> ParseError {
        ParseError::new(self.text, token.at, token.text.len(), message.into())
    }

    /// The next token; comments on the way are remembered.
    pub(crate) fn next(&mut self) -> Result<Token<'a>, ParseError> {
        self.skip_blanks();
        let rest = &self.text[self.at..];
        let Some(first) = rest.chars().next() else {
            return Ok(self.token(Kind::End, 0));
        };
        let second = rest.chars().nth(1);
        Ok(match first {
            '(' | ')' | '{' | '}' | '[' | ']' | ',' | ':' | '=' | '?' => self.token(Kind::Mark, 1),
            '-' if second == Some('>') => self.token(Kind::Arrow, 2),
            '%' => self.name(Kind::Value)?,
            '@' if second == Some('"') => {
                let len = self.quoted(1)?;
                self.token(Kind::Symbol, len)
            }
            '@' => self.name(Kind::Symbol)?,
            '"' => {
                let len = self.quoted(0)?;
                self.token(Kind::Text, len)
            }
            '-' | '+' | '.' => self.token(Kind::Number, number_length(rest)),
            c if c.is_ascii_digit() => self.token(Kind::Number, number_length(rest)),
            c if is_name_start(c) => {
                let len = rest.find(|c| !is_name_part(c)).unwrap_or(rest.len());
                self.token(Kind::Word, len)
            }
            c => {
                let message = format!("the character {c:?} means nothing here");
                return Err(ParseError::new(self.text, self.at, c.len_utf8(), message));
            }
        })
    }

    fn token(&mut self, kind: Kind, len: usize) -> Token<'a> {
        let token = Token { kind, text: &self.text[self.at..self.at + len], at: self.at };
        self.at += len;
        token
    }

    /// `%` or `@` with the name behind it.
    fn name(&mut self, kind: Kind) -> Result<Token<'a>, ParseError> {
        let rest = &self.text[self.at + 1..];
        let len = rest.find(|c| !is_name_part(c)).unwrap_or(rest.len());
        if len == 0 {
            return Err(ParseError::new(
                self.text,
                self.at,
                1,
                "expected a name right behind this mark".into(),
            ));
        }
        Ok(self.token(kind, len + 1))
    }

    /// Length of the quoted text that begins `skip` bytes from here, the skipped ones included.
    fn quoted(&self, skip: usize) -> Result<usize, ParseError> {
        let mut escaped = false;
        for (i, c) in self.text[self.at..].char_indices().skip(skip + 1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => return Ok(i + 1),
                '\n' => break,
                _ => {}
            }
        }
        Err(ParseError::new(self.text, self.at, skip + 1, "this quote is not closed on its line".into()))
    }

    fn skip_blanks(&mut self) {
        let mut behind_token = self.at > 0;
        loop {
            let rest = &self.text[self.at..];
            let blanks = rest.find(|c: char| !c.is_ascii_whitespace()).unwrap_or(rest.len());
            if rest[..blanks].contains('\n') {
                behind_token = false;
            }
            self.at += blanks;
            if !rest[blanks..].starts_with("//") {
                return;
            }
            let comment = rest[blanks..].split('\n').next().unwrap_or("");
            self.at += comment.len();
            self.comments.add(comment.trim_end(), behind_token);
        }
    }
}

/// Length of the number at the start of a text. A sign may follow an exponent's letter.
fn number_length(text: &str) -> usize {
    let hex = text.trim_start_matches(['-', '+']).starts_with("0x");
    let exponents = if hex { ['p', 'P'] } else { ['e', 'E'] };
    let mut previous = ' ';
    for (i, c) in text.char_indices() {
        let sign = (c == '-' || c == '+') && (i == 0 || exponents.contains(&previous));
        if !sign && !is_name_part(c) {
            return i;
        }
        previous = c;
    }
    text.len()
}

/// Quoted text as it is written: quotes, backslashes and control characters escaped.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            c if c.is_control() => quoted.extend(c.escape_unicode()),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// The inverse of [`quote`]; `None` for an unknown escape.
pub(crate) fn unquote(quoted: &str) -> Option<String> {
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match chars.next()? {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'u' => {
                let rest = chars.as_str().strip_prefix('{')?;
                let (digits, after) = rest.split_once('}')?;
                text.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
                chars = after.chars();
            }
            c @ ('"' | '\\') => text.push(c),
            _ => return None,
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<(Kind, &str)> {
        let mut lexer = Lexer::new(text);
        let mut tokens = Vec::new();
        loop {
            let token = lexer.next().unwrap();
            if token.kind == Kind::End {
                return tokens;
            }
            tokens.push((token.kind, token.text));
        }
    }

    #[test]
    fn numbers_end_where_they_should() {
        let words: Vec<&str> = tokens("1e-3,-0x1.8p+3]-inf 0x1e-3 5->").into_iter().map(|t| t.1).collect();
        assert_eq!(words, ["1e-3", ",", "-0x1.8p+3", "]", "-inf", "0x1e", "-3", "5", "->"]);
    }

    #[test]
    fn quoting_round_trips() {
        for text in ["", "plain", "a\"b\\c\n\t\r\u{0}\u{7f}é\u{1F600}", "\\u{41}"] {
            assert_eq!(unquote(&quote(text)).as_deref(), Some(text));
            assert_eq!(tokens(&format!("@{0} {0}", quote(text))).len(), 2);
        }
        assert_eq!(unquote(r#""\q""#), None);
        assert_eq!(unquote(r#""\u{110000}""#), None);
    }
}
