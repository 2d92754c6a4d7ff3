//! One event, whole: headers, body as a view, every delivery.

use crate::cli::args::Format;
use crate::cli::choice::Scope;
use crate::cli::connect::Stay;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::sanitize;
use crate::headers::Headers;
use crate::protocol::events::{Event, EventDelivery};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Words in a header's name that make its value a likely credential.
const CREDENTIAL_WORDS: [&str; 7] =
    ["authorization", "cookie", "token", "secret", "password", "api-key", "apikey"];
/// What stands for a value that is not shown.
const HIDDEN: &str = "(hidden; see --show-headers)";
/// Bytes of a binary body in the view.
const MAX_HEX_BYTES: usize = 512;

pub(super) fn run(context: &Context, format: Format, id: &str, show_headers: bool) -> Result<Exit, CliError> {
    let settings = context.settings()?;
    let ids = [id.to_owned()];
    let mut event = context.block_on(async {
        let connected = context.connect(&settings, Scope::WhereKnown(&ids), Stay::Short, "events").await?;
        let event = connected.client.event(id).await;
        connected.close().await;
        event.map_err(CliError::from)
    })?;
    if !show_headers {
        event.headers = event.headers.as_ref().map(masked);
    }
    match format {
        Format::Json => context.printer.json(&event)?,
        _ => lines(&event).iter().try_for_each(|line| context.printer.line(line))?,
    }
    Ok(Exit::Done)
}

fn masked(headers: &Headers) -> Headers {
    let hide = |name: &str| CREDENTIAL_WORDS.iter().any(|word| name.to_ascii_lowercase().contains(word));
    headers.iter().map(|(name, value)| (name, if hide(name) { HIDDEN } else { value })).collect()
}

fn lines(event: &Event) -> Vec<String> {
    let source = event.source.as_deref().unwrap_or("-");
    let mut lines = vec![
        field("event", &event.id),
        field("type", &event.kind),
        field("source", &format!("{source}, number {} of its stream", event.sequence)),
        field("arrived", &event.created_at.local()),
        field("status", &event.status),
    ];
    lines.extend(event.provider_event_id.as_ref().map(|id| field("provider id", id)));
    if event.conflicting {
        lines.push(field("note", "the same provider id came before with other bytes"));
    }
    lines.push(field("request", &request(event)));
    lines.push(String::new());
    let headers = event.headers.iter().flat_map(Headers::iter);
    lines.extend(headers.map(|(name, value)| sanitize::line(&format!("{name}: {value}")).into_owned()));
    lines.push(String::new());
    lines.extend(body(event));
    lines.push(String::new());
    lines.extend(event.deliveries.iter().flatten().map(delivery));
    if event.deliveries.as_ref().is_none_or(Vec::is_empty) {
        let id = sanitize::line(&event.id);
        lines.push(format!("nobody was listening; `pullhook replay {id}` hands it to a listener"));
    }
    lines
}

/// The method, and what came below the source's address.
fn request(event: &Event) -> String {
    let method = event.method.as_deref().unwrap_or("POST");
    let path = event.path.as_deref().unwrap_or_default();
    match (path, event.query.as_deref().unwrap_or_default()) {
        ("", "") => method.to_owned(),
        (path, "") => format!("{method} …{path}"),
        (path, query) => format!("{method} …{path}?{query}"),
    }
}

fn field(name: &str, value: &str) -> String {
    format!("{name:<12} {}", sanitize::line(value))
}

/// The body as it is, made harmless for a terminal; bytes that are no text as hex.
fn body(event: &Event) -> Vec<String> {
    if let Some(encoded) = &event.body_base64 {
        let bytes = STANDARD.decode(encoded).unwrap_or_default();
        return hex(&bytes);
    }
    match event.body.as_deref() {
        None | Some("") => vec!["(no body)".to_owned()],
        Some(text) => sanitize::block(text).lines().map(str::to_owned).collect(),
    }
}

fn hex(bytes: &[u8]) -> Vec<String> {
    let shown = &bytes[..bytes.len().min(MAX_HEX_BYTES)];
    let mut lines: Vec<String> = shown
        .chunks(16)
        .enumerate()
        .map(|(index, row)| {
            let digits: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
            let text: String =
                row.iter().map(|b| if b.is_ascii_graphic() { char::from(*b) } else { '.' }).collect();
            format!("{:08x}  {:<47}  {text}", index * 16, digits.join(" "))
        })
        .collect();
    if shown.len() < bytes.len() {
        lines.push(format!("… {} bytes in all", bytes.len()));
    }
    lines
}

fn delivery(delivery: &EventDelivery) -> String {
    let origin = match (delivery.replay, delivery.redelivery) {
        (true, _) => " (replay)",
        (_, true) => " (redelivery)",
        _ => "",
    };
    let answer = match (delivery.status_code, &delivery.error) {
        (Some(code), Some(error)) => format!(" [{code}] {error}"),
        (Some(code), None) => format!(" [{code}]"),
        (None, Some(error)) => format!(" [ERR] {error}"),
        (None, None) => String::new(),
    };
    let took = delivery.duration_ms.map(|ms| format!(" ({ms} ms)")).unwrap_or_default();
    let at = delivery.finished_at.unwrap_or(delivery.created_at).local();
    let text = format!("{at}  {}{origin}{answer}{took}  to {}", delivery.status, delivery.listener_id);
    sanitize::line(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likely_credentials_are_hidden_by_name() {
        let headers: Headers =
            [("X-Gitlab-Token", "t"), ("Cookie", "c"), ("X-Api-Key", "k"), ("Content-Type", "json")]
                .into_iter()
                .collect();
        let shown = masked(&headers);
        let values: Vec<&str> = shown.iter().map(|(_, value)| value).collect();
        assert_eq!(values, [HIDDEN, HIDDEN, HIDDEN, "json"]);
    }

    #[test]
    fn bytes_are_shown_as_hex_and_text() {
        assert_eq!(hex(b"\x00\x01ab"), ["00000000  00 01 61 62                                      ..ab"]);
        assert_eq!(hex(&[0; 600]).last().map(String::as_str), Some("… 600 bytes in all"));
    }
}
