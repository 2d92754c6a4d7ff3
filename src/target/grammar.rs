//! The TARGET grammar. It decides on the text alone; whatever it takes, a URL parser reads the same way.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{DEFAULT_PORT, Host, Place, Target, TargetError, default_port};

/// The longest host name (RFC 1035).
const MAX_NAME: usize = 253;
/// The longest label of one.
const MAX_LABEL: usize = 63;

pub(super) fn target(text: &str) -> Result<Target, TargetError> {
    if text.is_empty() {
        return Err(TargetError::Empty);
    }
    if let Some(at) = text.chars().position(|c| c.is_whitespace() || c.is_control()) {
        return Err(TargetError::Blank { at: at + 1 });
    }
    if let Some(rest) = text.strip_prefix("unix:") {
        return unix(rest);
    }
    if let Some((scheme, rest)) = scheme(text)? {
        let tls = scheme == "https";
        let (authority, path) = split_path(rest);
        let (host, port) = host_and_port(authority)?;
        let host = host.ok_or_else(|| TargetError::NoHost { scheme: scheme.clone() })?;
        return tcp(tls, host, port.unwrap_or(default_port(tls)), path);
    }
    let (authority, path) = split_path(text);
    let localhost = Host::Name("localhost".to_owned());
    if authority.is_empty() {
        return if path.starts_with("//") {
            Err(TargetError::NoHost { scheme: "http".to_owned() })
        } else {
            tcp(false, localhost, DEFAULT_PORT, path)
        };
    }
    if authority.bytes().all(|b| b.is_ascii_digit()) {
        return tcp(false, localhost, port(authority)?, path);
    }
    match host_and_port(authority)? {
        (host, Some(port)) => tcp(false, host.unwrap_or(localhost), port, path),
        (host, None) => Err(TargetError::NoPort { host: host.unwrap_or(localhost).to_string() }),
    }
}

fn tcp(tls: bool, host: Host, port: u16, path: &str) -> Result<Target, TargetError> {
    Ok(Target { place: Place::Tcp { tls, host, port }, path_and_query: path_and_query(path)? })
}

/// `/run/app.sock:/path`: the socket ends at the first `:/`.
fn unix(rest: &str) -> Result<Target, TargetError> {
    let (socket, path) = rest.find(":/").map_or((rest, ""), |at| (&rest[..at], &rest[at + 1..]));
    if !socket.starts_with('/') || socket.starts_with("//") || socket.ends_with('/') || socket.ends_with(':')
    {
        return Err(TargetError::Socket);
    }
    Ok(Target { place: Place::Unix { socket: socket.into() }, path_and_query: path_and_query(path)? })
}

/// `http` or `https` in lower case and what follows `://`; `None` when the text has no scheme.
fn scheme(text: &str) -> Result<Option<(String, &str)>, TargetError> {
    let Some((scheme, rest)) = text.split_once(':') else {
        return Ok(None);
    };
    let looks_like_one = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    let lower = scheme.to_ascii_lowercase();
    let ours = lower == "http" || lower == "https";
    match rest.strip_prefix("//") {
        _ if !looks_like_one => Ok(None),
        Some(rest) if ours => Ok(Some((lower, rest))),
        Some(_) => Err(TargetError::Scheme { scheme: scheme.to_owned() }),
        None if ours => Err(TargetError::Slashes { scheme: lower }),
        None => Ok(None),
    }
}

/// Splits before the first `/`, `?` or `#`.
fn split_path(text: &str) -> (&str, &str) {
    text.split_at(text.find(['/', '?', '#']).unwrap_or(text.len()))
}

/// Takes `host`, `host:port`, `:port` or `[v6]:port` apart.
fn host_and_port(authority: &str) -> Result<(Option<Host>, Option<u16>), TargetError> {
    if authority.contains('@') {
        return Err(TargetError::UserInfo);
    }
    if let Some(inside) = authority.strip_prefix('[') {
        let refused = |why| TargetError::Host { host: authority.to_owned(), why };
        let (address, rest) = inside.split_once(']').ok_or_else(|| refused("the bracket is not closed"))?;
        let address: Ipv6Addr =
            address.parse().map_err(|_| refused("only an IPv6 address stands in brackets"))?;
        let port = match rest.strip_prefix(':') {
            Some(digits) => Some(port(digits)?),
            None if rest.is_empty() => None,
            None => return Err(refused("after the bracket comes :port")),
        };
        return Ok((Some(Host::V6(address)), port));
    }
    let (host, digits) =
        authority.split_once(':').map_or((authority, None), |(host, digits)| (host, Some(digits)));
    if digits.is_some_and(|digits| digits.contains(':')) && authority.parse::<Ipv6Addr>().is_ok() {
        let why = "an IPv6 address stands in brackets, as in [::1]:3000";
        return Err(TargetError::Host { host: authority.to_owned(), why });
    }
    let host = if host.is_empty() { None } else { Some(name_or_v4(host)?) };
    Ok((host, digits.map(port).transpose()?))
}

fn port(digits: &str) -> Result<u16, TargetError> {
    let strict = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let number =
        Some(digits).filter(|_| strict).and_then(|digits| digits.parse().ok()).filter(|port| *port != 0);
    number.ok_or_else(|| TargetError::Port { port: digits.to_owned() })
}

/// A host name or a dotted IPv4 address. URL parsers read `127.1`, `2130706433` and `0x7f.1` as addresses too; such
/// a host is refused, so that nobody is fooled about where it leads.
fn name_or_v4(host: &str) -> Result<Host, TargetError> {
    let refused = |why| Err(TargetError::Host { host: host.to_owned(), why });
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return Ok(Host::V4(address));
    }
    if !host.is_ascii() {
        return refused("write an international name in its ASCII form (xn--...)");
    }
    let labels: Vec<&str> = host.strip_suffix('.').unwrap_or(host).split('.').collect();
    let last = labels.last().copied().unwrap_or_default().to_ascii_lowercase();
    let hexadecimal =
        last.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
    if hexadecimal || (!last.is_empty() && last.bytes().all(|b| b.is_ascii_digit())) {
        return refused("write an IPv4 address as four decimal numbers, as in 127.0.0.1");
    }
    if labels.iter().any(|label| label.is_empty() || label.len() > MAX_LABEL) || host.len() > MAX_NAME {
        return refused("an empty or an overlong part between dots");
    }
    if !host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
        return refused("a name has letters, digits, `-`, `_` and dots only");
    }
    Ok(Host::Name(host.to_ascii_lowercase()))
}

/// The path and query as they will be asked for.
fn path_and_query(path: &str) -> Result<String, TargetError> {
    if path.contains('#') {
        return Err(TargetError::Fragment);
    }
    if let Some(found) = path.chars().find(|c| !c.is_ascii()) {
        return Err(TargetError::NotAscii { found });
    }
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    match path.parse::<http::uri::PathAndQuery>() {
        Ok(parsed) if parsed.as_str() == path => Ok(path),
        _ => Err(TargetError::Path { path }),
    }
}
