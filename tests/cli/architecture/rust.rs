//! Just enough of Rust's grammar to know which paths and which texts a file holds.

/// What a file says, without its comments and its inline test modules.
pub(super) struct Source {
    /// Every path, `use` groups expanded, with its line; a macro's name ends with `!`.
    pub(super) paths: Vec<(usize, Vec<String>)>,
    /// Every string literal, with its line.
    pub(super) texts: Vec<(usize, String)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Sign(char),
}

impl Source {
    pub(super) fn of(text: &str) -> Self {
        let tokens = without_tests(&tokens(text));
        let texts = tokens.iter().filter_map(|(line, token)| match token {
            Token::Text(text) => Some((*line, text.clone())),
            _ => None,
        });
        Self { texts: texts.collect(), paths: paths(&tokens) }
    }
}

fn tokens(text: &str) -> Vec<(usize, Token)> {
    let chars: Vec<char> = text.chars().collect();
    let (mut tokens, mut at, mut line) = (Vec::new(), 0, 1);
    while at < chars.len() {
        let (token, end) = next(&chars, at);
        if let Some(token) = token {
            tokens.push((line, token));
        }
        line += chars[at..end].iter().filter(|c| **c == '\n').count();
        at = end;
    }
    tokens
}

/// The token at `at`, if what stands there is one, and where it ends.
fn next(chars: &[char], at: usize) -> (Option<Token>, usize) {
    let ahead = |n: usize| chars.get(at + n).copied().unwrap_or('\0');
    let until = |from: usize, test: &dyn Fn(char) -> bool| {
        chars[from..].iter().position(|c| test(*c)).map_or(chars.len(), |n| from + n)
    };
    match (chars[at], ahead(1)) {
        ('/', '/') => (None, until(at, &|c| c == '\n')),
        ('/', '*') => (None, comment_end(chars, at)),
        ('"', _) => string(chars, at),
        ('\'', '\\') => (None, until(at + 3, &|c| c == '\'') + 1),
        ('\'', _) if ahead(2) == '\'' => (None, at + 3),
        ('r' | 'b' | 'c', _) if literal_start(chars, at).is_some() => {
            let (start, hashes) = literal_start(chars, at).unwrap();
            if hashes == 0 && !chars[at..start].contains(&'r') {
                return string(chars, start);
            }
            raw_string(chars, start, hashes)
        }
        (c, _) if c.is_alphanumeric() || c == '_' => {
            let end = until(at, &|c| !c.is_alphanumeric() && c != '_');
            (Some(Token::Word(chars[at..end].iter().collect())), end)
        }
        (c, _) if c.is_whitespace() => (None, at + 1),
        (c, _) => (Some(Token::Sign(c)), at + 1),
    }
}

/// Where the quote of `r"`, `b"`, `br##"` ... is, and how many `#` stand before it.
fn literal_start(chars: &[char], at: usize) -> Option<(usize, usize)> {
    let letters = chars[at..].iter().take_while(|c| matches!(c, 'r' | 'b' | 'c')).count();
    let hashes = chars[at + letters..].iter().take_while(|c| **c == '#').count();
    let quote = at + letters + hashes;
    (letters <= 2 && chars.get(quote) == Some(&'"')).then_some((quote, hashes))
}

fn string(chars: &[char], quote: usize) -> (Option<Token>, usize) {
    let mut end = quote + 1;
    while end < chars.len() && chars[end] != '"' {
        end += if chars[end] == '\\' { 2 } else { 1 };
    }
    let end = end.min(chars.len());
    (Some(Token::Text(chars[quote + 1..end].iter().collect())), end + 1)
}

fn raw_string(chars: &[char], quote: usize, hashes: usize) -> (Option<Token>, usize) {
    let mut close = vec!['"'];
    close.extend(std::iter::repeat_n('#', hashes));
    let length = chars[quote + 1..].windows(close.len()).position(|window| window == close);
    let end = length.map_or(chars.len(), |length| quote + 1 + length);
    (Some(Token::Text(chars[quote + 1..end].iter().collect())), (end + close.len()).min(chars.len()))
}

fn comment_end(chars: &[char], at: usize) -> usize {
    let (mut end, mut depth) = (at, 0);
    while end < chars.len() {
        match chars[end..].get(..2) {
            Some(['/', '*']) => (depth, end) = (depth + 1, end + 2),
            Some(['*', '/']) if depth == 1 => return end + 2,
            Some(['*', '/']) => (depth, end) = (depth - 1, end + 2),
            _ => end += 1,
        }
    }
    end
}

/// Cuts every `#[cfg(test)] mod name { ... }`: tests may reach where the product may not.
fn without_tests(tokens: &[(usize, Token)]) -> Vec<(usize, Token)> {
    let signs = |text: &str| text.chars().map(Token::Sign).collect::<Vec<_>>();
    let word = |text: &str| vec![Token::Word(text.to_owned())];
    let start: Vec<Token> =
        [signs("#["), word("cfg"), signs("("), word("test"), signs(")]"), word("mod")].concat();
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let here = tokens[at..].iter().map(|(_, token)| token);
        if !here.take(start.len()).eq(&start) {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let mut depth = 0;
        while at < tokens.len() {
            at += 1;
            match &tokens[at - 1].1 {
                Token::Sign('{') => depth += 1,
                Token::Sign('}') if depth == 1 => break,
                Token::Sign('}') => depth -= 1,
                Token::Sign(';') if depth == 0 => break,
                _ => {}
            }
        }
    }
    kept
}

fn paths(tokens: &[(usize, Token)]) -> Vec<(usize, Vec<String>)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        match &tokens[at].1 {
            Token::Word(_) => at = path(tokens, at, &[], &mut found),
            _ => at += 1,
        }
    }
    found
}

/// Reads the path (or the tree of a `use`) that starts at `at` below `base`; where it ends.
fn path(
    tokens: &[(usize, Token)],
    mut at: usize,
    base: &[String],
    found: &mut Vec<(usize, Vec<String>)>,
) -> usize {
    let mut names = base.to_vec();
    let sign = |at: usize, sign: char| tokens.get(at).is_some_and(|(_, token)| *token == Token::Sign(sign));
    let line = tokens[at].0;
    loop {
        match &tokens.get(at).map(|(_, token)| token) {
            Some(Token::Word(word)) => names.push(word.clone()),
            Some(Token::Sign('{')) => return group(tokens, at + 1, &names, found),
            _ => break,
        }
        at += 1;
        if !(sign(at, ':') && sign(at + 1, ':')) {
            break;
        }
        at += 2;
    }
    // `name!` is a macro's call, `name != x` is not.
    if sign(at, '!') && !sign(at + 1, '=') {
        names.last_mut().unwrap().push('!');
    }
    found.push((line, names));
    at
}

fn group(
    tokens: &[(usize, Token)],
    mut at: usize,
    base: &[String],
    found: &mut Vec<(usize, Vec<String>)>,
) -> usize {
    while let Some((_, token)) = tokens.get(at) {
        match token {
            Token::Sign('}') => return at + 1,
            Token::Word(_) => at = path(tokens, at, base, found),
            _ => at += 1,
        }
    }
    at
}
