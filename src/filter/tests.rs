//! What holds, what never does, and where a wrong expression is wrong.

use proptest::prelude::*;

use super::*;

const BODY: &str = r#"{"amount":100,"big":12345678901234567890,"rate":1.50,"text":"100","paid":true,"gone":null,
  "data":{"object":{"status":"paid","at":"2026-08-21T20:53:11Z"}},"items":[{"sku":"AB-1"},{"sku":"CD-2"}],
  "a.b":{"c=d":"x=y"},"twice":1,"twice":2}"#;

fn holds(filter: &str) -> bool {
    let headers: Headers =
        [("X-Shop", "acme"), ("X-Tag", "one"), ("x-tag", "two"), ("X-Count", "12")].into_iter().collect();
    let filter = Filter::parse(filter).unwrap_or_else(|error| panic!("{error}"));
    filter.holds(&headers, Some("a=1&b=x%20y&a=2&empty="), BODY.as_bytes())
}

#[test]
fn what_holds() {
    for filter in [
        "body.amount>=100",
        "body.amount=100",
        "body.amount=1e2",
        "body.amount<100.5",
        "body.rate=1.5",
        "body.big=12345678901234567890",
        "body.big>12345678901234567889",
        "body.big!=12345678901234567891",
        "body.text=100",
        "body.text>=100",
        "body.text=\"100\"",
        "body.paid=true",
        "body.paid!=false",
        "body.gone=null",
        "body.gone",
        "body.data.object",
        "body",
        "body.data.object.status=paid",
        "body.data.object.status!=open",
        "body.data.object.at>2026-08-21",
        "body.data.object.at<2026-09",
        "body.data.object.status~p*d",
        "body.items[0].sku~AB-*",
        "body.items.1.sku=CD-2",
        "body.\"a.b\".\"c=d\"=x=y",
        "body.twice=2",
        "body.items!=x",
        "header.x-shop=acme",
        "header.X-SHOP",
        "header.x-tag=two",
        "header.x-tag!=three",
        "header.x-count>9",
        "query.a=1",
        "query.a=2",
        "query.b=x y",
        "query.empty",
        "query.empty=\"\"",
    ] {
        assert!(holds(filter), "{filter}");
    }
}

#[test]
fn what_does_not() {
    for filter in [
        "body.amount>100",
        "body.amount=\"100\"",
        "body.amount=1OO",
        "body.big=12345678901234567891",
        "body.big<12345678901234567890",
        "body.text>abc",
        "body.paid=\"true\"",
        "body.paid>0",
        "body.missing",
        "body.missing!=1",
        "body.missing<1",
        "body.amount.x",
        "body.items[2].sku",
        "body.items.x",
        "body.items=x",
        "body.data~*",
        "header.x-none!=1",
        "header.x-tag!=one",
        "query.none",
        "query.none!=1",
        "body.twice=1",
        "body.data.object.status=PAID",
    ] {
        assert!(!holds(filter), "{filter}");
    }
}

#[test]
fn a_body_that_is_no_json_never_holds() {
    for body in [&b"amount=100"[..], b"", b"{\"amount\":100", b"{\"amount\":100}x", b"{\"amount\":\"\xff\"}"]
    {
        for filter in ["body", "body.amount", "body.amount!=1", "body.amount>=0"] {
            assert!(!Filter::parse(filter).unwrap().holds(&Headers::new(), None, body), "{filter}");
        }
    }
}

#[test]
fn faults_have_a_place() {
    for (text, position, fault) in [
        ("", 1, FilterFault::Empty),
        ("amount>1", 1, FilterFault::Subject),
        ("headers.x=1", 1, FilterFault::Subject),
        ("header", 7, FilterFault::Subject),
        ("query=1", 6, FilterFault::Subject),
        ("body.=1", 6, FilterFault::Name),
        ("body.a..b", 8, FilterFault::Name),
        ("bodyx", 1, FilterFault::Subject),
        ("body-x", 5, FilterFault::Name),
        ("body.é.\"x", 8, FilterFault::Quote),
        ("body.\"x\"y=1", 9, FilterFault::AfterQuote),
        ("body.a=\"x\"y", 11, FilterFault::AfterQuote),
        ("body.a[x]", 8, FilterFault::Index),
        ("body.a[1", 9, FilterFault::Index),
        ("body.a==1", 8, FilterFault::Operator),
        ("body.a=>1", 8, FilterFault::Operator),
        ("body.a!1", 7, FilterFault::Operator),
        ("body.a>", 8, FilterFault::Value),
        ("header.x y=1", 9, FilterFault::HeaderName),
        ("header.\"é\"=1", 8, FilterFault::HeaderName),
        ("header.=1", 8, FilterFault::Name),
    ] {
        let error = Filter::parse(text).expect_err(text);
        assert_eq!((error.position, error.fault), (position, fault), "{text}: {error}");
    }
    let text = Filter::parse("body.a==1").unwrap_err().to_string();
    assert_eq!(text, "no such operator: write = != > >= < <= or ~ (at position 8 of `body.a==1`)");
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,30}|(body|header|query)[.a-z0-9\\[\\]\"=!<>~\\\\é]{0,20}", body in "\\PC{0,40}") {
        if let Ok(filter) = Filter::parse(&text) {
            prop_assert_eq!(filter.to_string(), text);
            filter.holds(&Headers::new(), Some(&body), body.as_bytes());
        }
    }

    #[test]
    fn integers_compare_as_integers(actual in any::<u64>(), wanted in any::<u64>()) {
        let body = format!("{{\"n\":{actual}}}");
        let holds = |operator: &str| {
            Filter::parse(&format!("body.n{operator}{wanted}")).unwrap().holds(&Headers::new(), None, body.as_bytes())
        };
        prop_assert_eq!(holds("="), actual == wanted);
        prop_assert_eq!(holds("!="), actual != wanted);
        prop_assert_eq!(holds("<"), actual < wanted);
        prop_assert_eq!(holds(">="), actual >= wanted);
    }
}
