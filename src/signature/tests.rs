//! The numbered cases of the signature rules, and the properties behind them.

use proptest::prelude::*;

use super::scheme::{Encoding, KeyForm, Locator, Part};
use super::*;
use crate::clock::Dice;
use crate::secret::Secret;

const SA: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const SB: &str = "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=";
const T0: i64 = 1_760_000_000;
const B1: &[u8] = br#"{"id":"evt_1","type":"invoice.paid","amount":2000}"#;
const B5: &[u8] = b"{\"a\":\"\xff\"}";
const SA_B1: &str = "v1,12tg0DdisNfKbUxsZJtpoG5VEvVCART5UY5U9iyoEUI=";
const SB_B1: &str = "v1,/7Ky9lyR5Z8cM49/CDhTctphUwzwlbaqpIt7XGC7b6M=";
const GH_B1: &str = "21750bde97e6604fcc1a06b7b2a3584e0ca12b5d36a0662181e362dfed8538c8";

fn key(scheme: Scheme, secret: &str) -> Key {
    Key::new(scheme, &Secret::new(secret)).unwrap()
}

fn github() -> Scheme {
    Scheme::parse("github").unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

fn check(scheme: Scheme, secrets: &[&str], headers: &[(&str, &str)], body: &[u8]) -> Result<(), Rejection> {
    let keys: Vec<Key> = secrets.iter().map(|secret| key(scheme, secret)).collect();
    let headers: Headers = headers.iter().copied().collect();
    verify(scheme, &keys, &Request { method: "POST", url: None, headers: &headers, body }, at(T0))
}

fn standard_with(id: &str, timestamp: &str, signature: &str) -> Result<(), Rejection> {
    let headers = [("webhook-id", id), ("webhook-timestamp", timestamp), ("webhook-signature", signature)];
    check(Scheme::standard(), &[SA], &headers, B1)
}

fn signature_only(signature: &str) -> Result<(), Rejection> {
    standard_with("msg_1", "1760000000", signature)
}

#[test]
fn s01_names_ignore_case_and_ours_are_the_standard_ones() {
    let headers =
        [("WEBHOOK-ID", "msg_1"), ("Webhook-Timestamp", "1760000000"), ("webhook-signature", SA_B1)];
    assert_eq!(check(Scheme::standard(), &[SA], &headers, B1), Ok(()));
    let request = Request { method: "POST", url: None, headers: &Headers::new(), body: B1 };
    let ours = sign(Scheme::standard(), &key(Scheme::standard(), SA), &request, "msg_1", at(T0));
    let wanted = [(standard::ID, "msg_1"), (standard::TIMESTAMP, "1760000000"), (standard::SIGNATURE, SA_B1)];
    assert_eq!(ours.iter().collect::<Vec<_>>(), wanted);
    assert_eq!(standard::sign_v1(&key(Scheme::standard(), SA), "msg_1", at(T0), B1), SA_B1);
}

#[test]
fn svix_names_are_taken_but_never_mixed_in() {
    let svix = [("svix-id", "msg_1"), ("svix-timestamp", "1760000000"), ("svix-signature", SA_B1)];
    assert_eq!(check(Scheme::standard(), &[SA], &svix, B1), Ok(()));
    let mixed = [("webhook-id", "msg_1"), ("svix-timestamp", "1760000000"), ("svix-signature", SA_B1)];
    let rejection = check(Scheme::standard(), &[SA], &mixed, B1).unwrap_err();
    assert_eq!(rejection.label(), "mixed_headers");
    let mut both = svix.to_vec();
    both.extend([("webhook-id", "msg_1"), ("webhook-timestamp", "1760000000"), ("webhook-signature", SA_B1)]);
    assert_eq!(check(Scheme::standard(), &[SA], &both, B1), Ok(()));
    both.push(("webhook-id", "msg_1"));
    assert_eq!(check(Scheme::standard(), &[SA], &both, B1).unwrap_err().label(), "duplicate_header");
}

#[test]
fn s02_s04_secrets_are_refused_with_the_rule() {
    let refused = |secret: &str| Key::new(Scheme::standard(), &Secret::new(secret)).unwrap_err();
    assert_eq!(
        refused(&format!("v1,{SA}")).to_string(),
        "the secret must start with whsec_; `v1,` is a signature prefix: leave it out"
    );
    assert_eq!(refused("whsec_!!!!"), BadSecret::NotBase64);
    assert_eq!(refused("whsec_"), BadSecret::Empty);
    assert_eq!(refused("whsec_===="), BadSecret::NotBase64);
    assert_eq!(refused(" \n"), BadSecret::Empty);
    assert_eq!(refused("hunter2"), BadSecret::NoPrefix);
    assert_eq!(refused("whsk_6Xb/dCcHpPea21PS1N9VY"), BadSecret::Asymmetric);
    assert_eq!(key(Scheme::standard(), "whsec_QQ==").warnings(), [SecretWarning::Short { bytes: 1 }]);
    assert_eq!(key(github(), "gh-secret").warnings(), [SecretWarning::Short { bytes: 9 }]);
    assert_eq!(Key::new(github(), &Secret::new("")).unwrap_err(), BadSecret::Empty);
    assert!(Key::new(Scheme::none(), &Secret::new("x")).is_err());
    let forged = "v1,qIslVEEgMsAAapbjQ2JyIl89FyfpXoFhlPbyz6J6mrA=";
    assert_eq!(signature_only(forged), Err(Rejection::NoMatch));
}

#[test]
fn s05_any_signature_of_the_list_and_any_key_will_do() {
    for list in [
        format!("{SB_B1} {SA_B1}"),
        format!("{SA_B1} {SB_B1}"),
        format!("v1a,AAAA {SA_B1}"),
        format!("v1,not-base64 nonsense  {SA_B1}"),
    ] {
        assert_eq!(signature_only(&list), Ok(()), "{list}");
    }
    let headers =
        [("webhook-id", "msg_1"), ("webhook-timestamp", "1760000000"), ("webhook-signature", SA_B1)];
    assert_eq!(check(Scheme::standard(), &[SB, SA], &headers, B1), Ok(()));
    assert_eq!(check(Scheme::standard(), &[SB], &headers, B1), Err(Rejection::NoMatch));
    assert_eq!(check(Scheme::standard(), &[], &headers, B1), Err(Rejection::NoSecret));
}

#[test]
fn s06_the_version_prefix_is_required() {
    let bare = SA_B1.trim_start_matches("v1,");
    for bad in [bare, &format!("v2,{bare}"), &format!("v1a,{bare}"), &format!("v1={bare}")] {
        assert_eq!(signature_only(bad).unwrap_err().label(), "malformed_signature", "{bad}");
    }
    for bad in ["v1,", "v1,AAAA", &SA_B1[..SA_B1.len() - 2], &format!("{SA_B1},{SA_B1}")] {
        assert_eq!(signature_only(bad), Err(Rejection::NoMatch), "{bad}");
    }
    assert_eq!(signature_only("").unwrap_err().label(), "missing_header");
}

#[test]
fn s07_timestamps_are_integers_near_now() {
    let text = |timestamp: &str, signature: &str| match standard_with("msg_1", timestamp, signature) {
        Ok(()) => "valid".to_owned(),
        Err(rejection) => rejection.to_string(),
    };
    assert!(
        text("abc", "v1,CnS4kwTveAfMTwc04167MX18zPhL6R97lrWeIsBi3WM=").contains("timestamp not an integer")
    );
    let millis = text("1760000000000", "v1,nOtbcaCLa/2osvA33vRFjYby9vGmPdXE3liAqI+xpug=");
    assert!(millis.contains("looks like milliseconds"), "{millis}");
    assert!(text("1759999699", "v1,IlwQf0RsYtMz+Sz44vfqXacXP48WooJ/QjoCylaX13k=").contains("301 s old"));
    assert!(
        text("1760000301", "v1,MhSjjbs64JEgBIFg4a6f1EAT0nMUBpLrkY+qY6QvsJU=").contains("301 s in the future")
    );
    for edge in [T0 - 300, T0 + 300] {
        let signature = standard::sign_v1(&key(Scheme::standard(), SA), "msg_1", at(edge), B1);
        assert_eq!(text(&edge.to_string(), &signature), "valid");
    }
    for odd in
        ["", " 1760000000", "+1760000000", "-1", "1760000000.0", "1.76e9", "١٧٦", "99999999999999999999"]
    {
        let label = standard_with("msg_1", odd, SA_B1).unwrap_err().label();
        assert!(["malformed_timestamp", "missing_header"].contains(&label), "{odd}: {label}");
    }
    assert_eq!(standard_with("msg_1", "9223372036854775807", SA_B1).unwrap_err().label(), "future");
}

#[test]
fn s08_dots_move_no_boundary() {
    let signature = "v1,qEa/cIX8M2ED6l6I5Ggp+M5xT6Epi8nHnB5f+95z0Cs=";
    assert_eq!(standard_with("evt.1", "1760000000", signature), Ok(()));
    assert_eq!(standard_with("evt", "1.1760000000", signature).unwrap_err().label(), "malformed_timestamp");
    assert_eq!(sendable_id("evt.1\r\nx: y"), "evt_1__x:_y");
}

#[test]
fn s09_files_end_in_newlines_that_are_not_the_secrets() {
    let good = ("X-Hub-Signature-256", &*format!("sha256={GH_B1}"));
    let with_newline =
        ("X-Hub-Signature-256", "sha256=0dcc94135670ea8fc36fd8d7e57fd2813a12c7fb9036a73675fc70f39f7a5267");
    for contents in ["gh-secret\n", "gh-secret\r\n", "gh-secret"] {
        let secret = secret_from_file(contents);
        assert_eq!(check(github(), &[secret.expose()], &[good], B1), Ok(()));
        assert_eq!(check(github(), &[secret.expose()], &[with_newline], B1), Err(Rejection::NoMatch));
    }
    assert_eq!(secret_from_file("a b\n\n").expose(), "a b\n");
    assert!(key(github(), " a b c d e f g h i j").warnings().contains(&SecretWarning::EdgeWhitespace));
}

#[test]
fn s10_github_is_strict_about_what_matters() {
    let with = |value: &str| check(github(), &["gh-secret"], &[("X-Hub-Signature-256", value)], B1);
    assert_eq!(with(&format!("sha256={}", GH_B1.to_uppercase())), Ok(()));
    assert_eq!(with(&format!("sha256= {GH_B1}")), Ok(()));
    assert_eq!(with(GH_B1).unwrap_err().label(), "malformed_signature");
    assert_eq!(
        with("IXUL3pfmYE/MGga3sqNYTgyhK102oGYhgeNi3+2FOMg=").unwrap_err().label(),
        "malformed_signature"
    );
    assert_eq!(with("sha256=").unwrap_err(), Rejection::NoMatch);
    let sha1 = [("X-Hub-Signature", "sha1=2c9aca23d73f6da67cf2a25644d625ecb2ac4e58")];
    assert_eq!(check(github(), &["gh-secret"], &sha1, B1).unwrap_err().label(), "missing_header");
    let twice = format!("sha256={GH_B1}");
    let twice = [("X-Hub-Signature-256", &*twice), ("x-hub-signature-256", &*twice)];
    assert_eq!(check(github(), &["gh-secret"], &twice, B1).unwrap_err().label(), "duplicate_header");
}

#[test]
fn s13_bodies_need_not_be_text() {
    let hub =
        [("X-Hub-Signature-256", "sha256=243b2367bae4fd8a6376ad0780e2f313f1f10659b2775b0d5a98ff48a2b0eac7")];
    assert_eq!(check(github(), &["gh-secret"], &hub, B5), Ok(()));
    let headers = [
        ("webhook-id", "msg_1"),
        ("webhook-timestamp", "1760000000"),
        ("webhook-signature", "v1,ik7CKVAXBZdOunHfdZM5jXEbg90G6TdTO09lAOPFE10="),
    ];
    assert_eq!(check(Scheme::standard(), &[SA], &headers, B5), Ok(()));
}

#[test]
fn s20_the_signers_names_are_reserved() {
    assert!(standard::is_reserved("Webhook-Signature") && standard::is_reserved("webhook-id"));
    assert!(!standard::is_reserved("webhook") && !standard::is_reserved("x-webhook-id"));
}

#[test]
fn rotation_signs_with_every_key() {
    let keys = [key(Scheme::standard(), SB), key(Scheme::standard(), SA)];
    let request = Request { method: "POST", url: None, headers: &Headers::new(), body: B1 };
    let headers = sign_all(Scheme::standard(), &keys, &request, "msg_1", at(T0));
    assert_eq!(headers.get(standard::SIGNATURE), Some(&*format!("{SB_B1} {SA_B1}")));
    assert!(sign_all(Scheme::none(), &keys, &request, "msg_1", at(T0)).is_empty());
}

#[test]
fn unsigned_takes_anything_and_unknown_names_are_refused() {
    assert_eq!(check(Scheme::none(), &[], &[], b"anything"), Ok(()));
    assert!(!Scheme::none().is_signed() && github().is_signed());
    let unknown = Scheme::parse("GitHub").unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "unknown scheme `GitHub`: known are `standard-webhooks`, `github`, `none`"
    );
}

#[derive(Debug)]
struct Counting;

impl Dice for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.iter_mut().zip(0..).for_each(|(byte, n)| *byte = n);
    }
}

#[test]
fn minted_secrets_can_be_used_and_imported() {
    let secret = standard::mint(&Counting);
    assert_eq!(secret.expose(), "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
    assert!(key(Scheme::standard(), secret.expose()).warnings().is_empty());
    assert_eq!(standard::importable(&secret), Ok(()));
}

#[test]
fn a_reserialised_body_is_found_by_its_signature() {
    let signed = b"{ \"a\": 1.50, \"b\": \"\\u00e9\" }\n";
    let standard = Scheme::standard();
    let keys = [key(standard, SA)];
    for (kind, sent) in explain::reserialisations(signed) {
        let bare = Request { method: "POST", url: None, headers: &Headers::new(), body: &sent };
        let headers = sign(standard, &keys[0], &bare, "msg_1", at(T0));
        let received = Request { headers: &headers, body: signed, ..bare };
        assert_eq!(verify(standard, &keys, &received, at(T0)), Err(Rejection::NoMatch));
        assert_eq!(explain::rewritten(standard, &keys, &received), Some(kind));
        let other = [key(standard, SB)];
        assert_eq!(explain::rewritten(standard, &other, &received), None);
    }
    assert_eq!(explain::reserialisations(signed).len(), explain::Kind::ALL.len());
}

/// A further scheme is a row and nothing else.
#[test]
fn a_scheme_with_literals_is_only_a_row() {
    static SLACK_LIKE: Row = Row {
        name: "slack-like",
        about: "",
        algorithm: Algorithm::HmacSha256,
        key: KeyForm::Text,
        places: &[Places {
            signature: Place::Header("X-Slack-Signature"),
            timestamp: Some(Place::Header("X-Slack-Request-Timestamp")),
            id: None,
        }],
        syntax: Syntax::Prefixed("v0="),
        encoding: Encoding::Hex,
        parts: &[Part::Literal("v0:"), Part::Timestamp, Part::Literal(":"), Part::Body],
        window: Some(Window { unit: Unit::Seconds, tolerance_s: 300 }),
        event_type: &[Locator::Body(&["event", "type"]), Locator::Body(&["type"])],
        event_id: &[Locator::Body(&["event_id"])],
        credentials: &[],
    };
    let challenge = br#"{"token":"x","challenge":"c-7f3","type":"url_verification"}"#;
    let headers = [
        ("X-Slack-Request-Timestamp", "1760000000"),
        ("X-Slack-Signature", "v0=b4b515109033f0874a1dc32ea850e0f839a3bd8b7d5b7d4abe53fddc73e7429c"),
    ];
    assert_eq!(check(Scheme(&SLACK_LIKE), &["slack-secret"], &headers, challenge), Ok(()));
}

proptest! {
    #[test]
    fn what_is_signed_verifies_and_nothing_else_does(
        body in proptest::collection::vec(any::<u8>(), 0..200),
        id in "[ -~]{1,40}",
        skew in -300_i64..=300,
        flip in any::<prop::sample::Index>(),
    ) {
        for scheme in [Scheme::standard(), github()] {
            let keys = [key(scheme, SA)];
            let bare = Request { method: "POST", url: None, headers: &Headers::new(), body: &body };
            let headers = sign(scheme, &keys[0], &bare, &id, at(T0 + skew));
            let signed = Request { headers: &headers, ..bare };
            prop_assert_eq!(verify(scheme, &keys, &signed, at(T0)), Ok(()));
            prop_assert!(!headers.get(standard::ID).unwrap_or_default().contains('.'));
            let mut changed = body.clone();
            if changed.is_empty() { changed.push(0) } else { let n = flip.index(changed.len()); changed[n] ^= 1 }
            prop_assert_eq!(verify(scheme, &keys, &Request { body: &changed, ..signed }, at(T0)), Err(Rejection::NoMatch));
        }
    }

    #[test]
    fn hostile_headers_never_panic(value in "\\PC{0,80}", timestamp in "\\PC{0,20}") {
        let _ = standard_with("msg_1", &timestamp, &value);
        let _ = signature_only(&value);
        let _ = check(github(), &["gh-secret"], &[("X-Hub-Signature-256", &value)], B1);
    }
}
